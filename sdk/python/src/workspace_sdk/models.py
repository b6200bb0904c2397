"""The objects of the API, such as `Policy` and `FileInfo`."""

from __future__ import annotations

from ._generated.models import *
