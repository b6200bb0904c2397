"""The objects of the API, such as `Policy` and `FileInfo`."""

from __future__ import annotations

from ._generated import models as _generated
from ._generated.models import *

__all__: list[str] = []
__all__ += _generated.__all__
