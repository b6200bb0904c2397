"""All errors of the package: `WorkspaceError`, its groups, one class for each code, and those of the client."""

from __future__ import annotations

from ._errors import (
    CommandExitError,
    ConnectionLostError,
    RequestTimeoutError,
    ServerUnreachableError,
    WebhookSignatureError,
    WorkspaceError,
)
from ._generated import errors as _generated
from ._generated.errors import *

__all__ = [
    "CommandExitError",
    "ConnectionLostError",
    "RequestTimeoutError",
    "ServerUnreachableError",
    "WebhookSignatureError",
    "WorkspaceError",
]
__all__ += _generated.__all__
