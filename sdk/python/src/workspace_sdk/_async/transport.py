"""Sends requests: one pool of connections, with retries, and every failure as an error of this package."""

from __future__ import annotations

import json
import ssl
import sys
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from .._deadline import NEVER, Deadline
from .._errors import (
    ConnectionLostError,
    InvalidRequestError,
    NotFoundError,
    RequestTimeoutError,
    ServerUnreachableError,
    WorkspaceError,
    from_body,
    group_of,
)
from .._retry import Patience, RetryPolicy
from .._seen import SeenResponse, SeenResponses
from .._values import random_id
from .._version import __version__
from .._where import Where
from ._runtime import Body, HttpClient, HttpTransport, close_http, finish, gather, limited, sleep

T = TypeVar("T")

Ending = Callable[[], Awaitable[None]]
"""Ends a stream, a terminal or a command."""

CLOSE_TIME = 10.0
"""Seconds for the end of streams, terminals and commands when the client is closed."""

SILENCE = 45.0
"""Seconds without data after which a stream counts as lost; the server sends a heartbeat every 15 s."""

CONNECT = 10.0
"""Seconds until a connection must be open."""

LONG = 120.0
"""Seconds until a response begins if the server starts containers."""

VERY_LONG = 900.0
"""Seconds until a response begins if the server works on all files."""

seen_responses: ContextVar[SeenResponses | None] = ContextVar("seen_responses", default=None)

Content = bytes | AsyncIterable[bytes] | Callable[[], AsyncIterable[bytes]]
"""A body: bytes, pieces, or a function that returns the pieces again for each attempt."""


@dataclass
class Request:
    """A request, before it is sent."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    content: Content | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    """Seconds until the response begins; `None` for the setting of the client."""
    deadline: Deadline = NEVER
    idempotency_key: str | None = None
    accept: tuple[int, ...] = ()
    """Statuses of responses that are not errors, in addition to those below 400."""
    is_stream: bool = False
    """Whether the server sends data for as long as the response lasts, heartbeats included."""
    is_last: bool = False
    """Whether the request is also sent while the client is being closed."""

    @property
    def changes_something(self) -> bool:
        """Whether the request has an effect on the server."""
        return self.method not in ("GET", "HEAD")

    @property
    def repeatable(self) -> bool:
        """Whether the request can be sent again: its body exists for each attempt."""
        return self.content is None or isinstance(self.content, bytes) or callable(self.content)


@dataclass
class Answer:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def path_of(*parts: str | int) -> str:
    """Returns a path below `/api/v1`, with each part encoded."""
    return "/api/v1/" + "/".join(_segment(str(part)) for part in parts)


def _segment(part: str) -> str:
    # Without these, the path would name another object: `/sandboxes/x/pty/..` is `/sandboxes/x`.
    if part in ("", ".", ".."):
        raise InvalidRequestError(f"`{part}` is not the id or name of an object")
    return quote(part, safe="")


class Transport:
    """Sends requests to one server."""

    def __init__(
        self, search: Callable[[], Where], timeout: float, retry: RetryPolicy, transport: HttpTransport | None
    ) -> None:
        self._search = search
        self.where = where = search()
        self._is_closed = False
        self._endings: set[Ending] = set()
        self.timeout = timeout
        self.retry = retry
        # Streams hold their connections, so a limit could block every other request.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30)
        self._http = HttpClient(
            base_url=where.url,
            headers={"Authorization": f"Bearer {where.key}", "User-Agent": user_agent(), "Accept-Encoding": "identity"},
            limits=limits,
            verify=self.ssl_context() or False,
            transport=transport,
            trust_env=not where.is_on_this_machine,
        )

    def ssl_context(self) -> ssl.SSLContext | None:
        """Returns the certificates to trust; `None` without TLS."""
        if self.where.url.lower().startswith("http:"):
            return None
        if self.where.certificate is None:
            return httpx.create_ssl_context()
        # The local server's own certificate is the only one to trust, for every name of this machine.
        context = ssl.create_default_context(cafile=str(self.where.certificate))
        context.check_hostname = False
        return context

    def add_ending(self, ending: Ending) -> None:
        """Adds what must happen when the client is closed."""
        self._endings.add(ending)

    def remove_ending(self, ending: Ending) -> None:
        """Removes an ending of something that has ended."""
        self._endings.discard(ending)

    async def close(self) -> None:
        """Ends all streams, terminals and commands of callers, and closes all connections."""
        self._is_closed = True
        if self._endings:
            await finish(self._end_all, CLOSE_TIME)
        await close_http(self._http)

    async def _end_all(self) -> None:
        await gather(_end_quietly, list(self._endings), None)

    def check_open(self, *, is_last: bool = False) -> None:
        """Raises an error if the client is closed."""
        if self._http.is_closed or (self._is_closed and not is_last):
            raise WorkspaceError("the client is closed", remediation="Create another client.")

    async def send(self, request: Request) -> Answer:
        """Returns the response. Sends the request again as the policy says."""
        answer = await self._repeat(request, self._whole)
        return Answer(204, {}, b"") if answer is None else answer

    async def open(self, request: Request) -> Stream:
        """Returns the response as a stream. Sends the request again as the policy says, until the response begins."""
        stream = await self._repeat(request, self.open_once)
        if stream is None:
            raise AssertionError("a DELETE request has no stream")
        return stream

    async def _repeat(self, request: Request, attempt: Callable[[Request], Awaitable[T]]) -> T | None:
        """Returns the result of the first attempt that succeeds; `None` for a deletion that an earlier one did."""
        request = _with_key(request)
        number, was_lost = 0, False
        while True:
            number += 1
            try:
                return await attempt(request)
            except WorkspaceError as error:
                if was_lost and request.method == "DELETE" and isinstance(error, NotFoundError):
                    return None
                error.attempts = number
                was_lost = was_lost or error.retry == "unknown"
                pause = self.retry.pause(error, number, repeatable=request.repeatable)
                if pause is None:
                    raise
                await self.pause(pause, request.deadline, error)

    async def pause(self, seconds: float, deadline: Deadline, error: WorkspaceError) -> None:
        """Waits before the next attempt; raises the error of the deadline if there is no time for one."""
        remaining = deadline.remaining()
        if remaining is not None and remaining <= seconds:
            raise deadline.error() from error
        await sleep(seconds)

    async def _whole(self, request: Request) -> Answer:
        response = await self._begin(request)
        return Answer(response.status_code, response.headers, await self._content(request, response))

    async def _content(self, request: Request, response: httpx.Response) -> bytes:
        """Returns the body of a response, and closes it."""
        stream, pieces = Stream(self, request, response), []
        try:
            while (piece := await stream.next()) is not None:
                pieces.append(piece)
        finally:
            await stream.close()
        return b"".join(pieces)

    async def open_once(self, request: Request) -> Stream:
        """Returns the response as a stream, after one attempt."""
        return Stream(self, request, await self._begin(_with_key(request)))

    async def open_patiently(self, request: Request, patience: Patience) -> Stream:
        """Returns the response as a stream. After a lost connection, sends the request again for a while."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self.open_once(request)
            except WorkspaceError as error:
                error.attempts = attempt
                if not is_passing(error):
                    raise
                if patience.has_connected or not isinstance(error, ServerUnreachableError):
                    await self.pause_patiently(patience, request.deadline, error)
                    continue
                # There may be no server at this address.
                pause = self.retry.pause(error, attempt, repeatable=True)
                if pause is None:
                    raise
                await self.pause(pause, request.deadline, error)

    async def pause_patiently(self, patience: Patience, deadline: Deadline, error: WorkspaceError) -> None:
        """Waits before a stream is opened again; raises the error if the time for that is over."""
        pause = patience.next()
        if pause is None:
            raise error
        await self.pause(pause, deadline, error)

    async def _begin(self, request: Request) -> httpx.Response:
        """Sends the request once, and returns the response when it begins. Raises the error of a failure."""
        self.check_open(is_last=request.is_last)
        try:
            built = self._http.build_request(
                request.method,
                request.path,
                params=_query(request.query) or None,
                content=_content(request),
                headers=_headers(request),
                timeout=self._timeouts(request),
            )
            with limited(request.deadline):
                response = await self._http.send(built, stream=True)
        except httpx.TransportError as error:
            raise self.failure(error, request) from error
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise InvalidRequestError(f"{request.method} {request.path} cannot be sent: {error}") from error
        seen = seen_responses.get()
        if seen is not None:
            seen.append(SeenResponse(request.method, request.path, response.status_code, response.headers))
        if response.status_code < 300 or response.status_code in request.accept:
            return response
        raise error_of(response.status_code, response.headers, await self._content(request, response))

    def _timeouts(self, request: Request) -> httpx.Timeout:
        wait = SILENCE if request.is_stream else self.timeout if request.timeout is None else request.timeout
        remaining = request.deadline.remaining()
        limit = wait if remaining is None else min(wait, remaining)
        return httpx.Timeout(limit, connect=min(CONNECT, limit), pool=None)

    def failure(self, error: Exception, request: Request, *, has_begun: bool = False) -> WorkspaceError:
        """Returns the error for a request without a response, or without the rest of it."""
        if request.deadline.has_passed():
            return request.deadline.error()
        if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
            # The text of the error has the headers, and so the key.
            return InvalidRequestError(f"{request.method} {request.path} is not a valid request of HTTP")
        url, reason = self.where.url, str(error) or type(error).__name__
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            return self.unreachable(reason)
        what = f"{request.method} {request.path}"
        if isinstance(error, httpx.TimeoutException) and not request.is_stream and not has_begun:
            return RequestTimeoutError(
                f"the server {url} did not respond to {what} in time",
                remediation="Set a longer `timeout` of the client, or check the load of the server.",
                retry="unknown",
            )
        return ConnectionLostError(
            f"the connection to {url} was lost during {what}: {reason}",
            remediation="Check the network and that the server runs, then try again.",
            retry="unknown",
        )

    def unreachable(self, reason: str) -> ServerUnreachableError:
        """Returns the error for a connection that was refused. The next attempt uses the address that is valid then."""
        error = ServerUnreachableError(
            f"cannot connect to the server {self.where.url}: {reason}",
            remediation="Check the address, and that the server runs.",
        )
        if self.where.is_found:
            with suppress(WorkspaceError):
                found = self._search()
                self._http.base_url = found.url
                self._http.headers["Authorization"] = f"Bearer {found.key}"
                self.where = found
        return error


class Stream:
    """The body of a response that arrives over time."""

    def __init__(self, transport: Transport, request: Request, response: httpx.Response) -> None:
        self._transport = transport
        self._request = request
        # The body has its own limit; the server may need longer until a response begins.
        times = response.request.extensions.get("timeout", {})
        times["read"] = SILENCE
        self._body = Body(response, request.deadline)
        self.headers: Mapping[str, str] = response.headers
        transport.add_ending(self.close)

    async def next(self) -> bytes | None:
        """Returns the next piece; `None` at the end. Raises `ConnectionLostError` if the connection is lost."""
        try:
            return await self._body.next()
        except (httpx.TransportError, httpx.StreamError) as error:
            raise self._transport.failure(error, self._request, has_begun=True) from error

    async def close(self) -> None:
        """Releases the connection."""
        self._transport.remove_ending(self.close)
        await self._body.close()


async def _end_quietly(ending: Ending) -> None:
    with suppress(Exception):
        await ending()


def is_passing(error: WorkspaceError) -> bool:
    """Tells whether a stream that failed with this error can be opened again later."""
    return isinstance(error, ConnectionLostError | ServerUnreachableError) or error.retry in ("later", "unknown")


def new_patience() -> Patience:
    """Returns the time for which a lost stream is opened again."""
    return Patience(time.monotonic)


def error_of(status: int, headers: Mapping[str, str], content: bytes) -> WorkspaceError:
    """Returns the error of a response."""
    if status < 400:
        target = headers.get("location", "another address")
        remediation = f"Set the address of the server to the one that {target} belongs to."
        return WorkspaceError(
            f"the server redirects to {target}, and the client does not follow with its key",
            status=status,
            headers=headers,
            remediation=remediation,
        )
    try:
        body = json.loads(content)["error"]
        return from_body(body, status, headers)
    except (ValueError, KeyError, TypeError, AttributeError):
        request_id = headers.get("x-request-id")
        message = f"the response with the status {status} is not one of an Elevo server"
        if status in (502, 503, 504):
            lost = ConnectionLostError(message, status=status, retry="unknown", headers=headers, request_id=request_id)
            lost.remediation = "Check the proxy between this client and the server."
            return lost
        group = group_of(status)
        remediation = "Check the address of the server, and proxies in front of it."
        return group(message, status=status, headers=headers, request_id=request_id, remediation=remediation)


def user_agent() -> str:
    """Returns the name and version of this client."""
    version = sys.version_info
    return f"elevo-python/{__version__} python/{version.major}.{version.minor}"


def _with_key(request: Request) -> Request:
    """Gives a request that changes something a key, which all attempts share."""
    if request.changes_something and request.idempotency_key is None:
        request.idempotency_key = random_id()
    return request


def _headers(request: Request) -> dict[str, str]:
    headers = dict(request.headers)
    if request.json is not None:
        headers["Content-Type"] = "application/json"
    if request.idempotency_key is not None:
        headers["Idempotency-Key"] = request.idempotency_key
    return headers


def _content(request: Request) -> Any:
    if request.json is not None:
        return json.dumps(request.json).encode()
    return request.content() if callable(request.content) else request.content


def _query(query: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the query without the values that are `None`."""
    return {name: _text(value) for name, value in query.items() if value is not None}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return list(value) if isinstance(value, list | tuple) else str(value)
