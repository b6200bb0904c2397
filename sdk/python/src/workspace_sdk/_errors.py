"""The base of all errors, the groups, and the errors that the client itself raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._command import CommandResult


class WorkspaceError(Exception):
    """An error of the server or of the client; the base of all errors of this package."""

    code: int
    """Number of the error, such as 2001; 0 for an error of the client."""
    name: str
    """Name of the error, such as `SANDBOX_NOT_FOUND`."""
    status: int | None
    """Status of the response."""
    message: str
    """What failed and why."""
    details: dict[str, Any]
    """Values that belong to the message."""
    remediation: str
    """What to do."""
    retry: str
    """Whether the same request may succeed later: `never`, `afterChange`, `later` or `unknown`."""
    request_id: str | None
    """Id of the request, by which the log of the server has more about it."""
    headers: Mapping[str, str]
    """Headers of the response."""
    attempts: int
    """How often the request was sent."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        name: str = "",
        status: int | None = None,
        details: Mapping[str, Any] | None = None,
        remediation: str = "",
        retry: str = "never",
        request_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.name = name or type(self).__name__
        self.status = status
        self.details = dict(details or {})
        self.remediation = remediation
        self.retry = retry
        self.request_id = request_id
        self.headers = headers or {}
        self.attempts = attempts

    @property
    def cause(self) -> BaseException | None:
        """The error that led to this one."""
        return self.__cause__

    def __str__(self) -> str:
        parts = [self.message]
        if self.remediation:
            parts.append(self.remediation)
        if self.request_id:
            parts.append(f"(request {self.request_id})")
        return " ".join(part if part.endswith((".", ")")) else f"{part}." for part in parts)


class AuthError(WorkspaceError):
    """The key is not valid, or does not allow the request."""


class NotFoundError(WorkspaceError):
    """An object of the request does not exist, or no longer exists."""


class ConflictError(WorkspaceError):
    """The state of an object does not allow the request."""


class LimitError(WorkspaceError):
    """The request exceeds a limit."""


class InvalidRequestError(WorkspaceError):
    """The request is not valid, or its command failed."""


class UnavailableError(WorkspaceError):
    """The server cannot carry out the request at this time."""


class ServerUnreachableError(WorkspaceError):
    """The client cannot connect to the server, or does not find one."""


class ConnectionLostError(WorkspaceError):
    """The connection ended before the response, or the stream, was complete."""


class RequestTimeoutError(WorkspaceError):
    """The response did not begin within `timeout`, or the call did not end within `deadline`."""


class WebhookSignatureError(WorkspaceError):
    """The signature of a webhook delivery is not valid."""


class CommandExitError(WorkspaceError):
    """A command ended with an exit code other than 0; raised by `check()`."""

    def __init__(self, message: str, *, result: CommandResult | None = None, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.result = result
        """The result of the command."""


def group_of(status: int) -> type[WorkspaceError]:
    """Returns the class for an error with this status and a code that this version does not know."""
    if status in (401, 403):
        return AuthError
    if status in (404, 410):
        return NotFoundError
    if status in (409, 412):
        return ConflictError
    if status in (413, 429, 507):
        return LimitError
    return UnavailableError if status >= 500 else InvalidRequestError


def from_body(
    body: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None, *, attempts: int = 1
) -> WorkspaceError:
    """Returns the error that the object `error` of a response describes."""
    from ._generated.errors import BY_CODE

    headers = headers or {}
    code = body.get("code", 0)
    return BY_CODE.get(code, group_of(status))(
        str(body.get("message", f"the server responded with the status {status}")),
        code=code,
        name=str(body.get("name", "")),
        status=status,
        details=body.get("details"),
        remediation=str(body.get("remediation", "")),
        retry=str(body.get("retry", "never")),
        request_id=body.get("requestId") or headers.get("x-request-id"),
        headers=headers,
        attempts=attempts,
    )
