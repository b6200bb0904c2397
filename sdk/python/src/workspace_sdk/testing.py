"""Tests without a server: transports that respond from recorded exchanges, and that record them.

A recording has one exchange in each line, as JSON:

    {"request": {"method", "path", "body"}, "response": {"status", "headers", "body"}}

A body is `{"json": …}`, `{"text": …}` or `{"base64": …}`, or absent. A stream is text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from ._errors import WorkspaceError

__all__ = ["FakeTransport", "RecordingTransport", "UnexpectedRequestError", "record", "recorded"]

# Headers that belong to a connection, not to a response.
_OF_CONNECTION = ("connection", "content-length", "date", "keep-alive", "transfer-encoding")


class UnexpectedRequestError(WorkspaceError):
    """The code under test sent a request that the recording does not have. The client does not send it again."""


class FakeTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Responds from a recording. Exchanges with one method and path respond in their order."""

    is_recorded = True
    """Says that the client needs neither an address nor a key."""

    def __init__(self, exchanges: Iterable[dict[str, Any]]) -> None:
        self._left = list(exchanges)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Returns the next recorded response for the method and path of the request."""
        method, path = request.method, request.url.raw_path.decode()
        wanted = (method, _normal(path))
        for number, exchange in enumerate(self._left):
            recorded_request = exchange["request"]
            if (recorded_request["method"], _normal(recorded_request["path"])) == wanted:
                del self._left[number]
                return _response(exchange["response"])
        following = "the recording has ended"
        if self._left:
            following = "the next recorded request is {method} {path}".format(**self._left[0]["request"])
        raise UnexpectedRequestError(
            f"the recording has no request {method} {path}; {following}",
            remediation="Record the exchanges again with the present code, or correct the request.",
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Returns the next recorded response for the method and path of the request."""
        return self.handle_request(request)


def recorded(lines: str | Iterable[str]) -> FakeTransport:
    """Returns a transport for the lines of a recording: `WorkspaceClient(transport=recorded(lines))`."""
    each = lines.splitlines() if isinstance(lines, str) else lines
    return FakeTransport(json.loads(line) for line in each if line.strip())


class RecordingTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Sends requests with another transport, and records the exchanges."""

    def __init__(self, transport: httpx.BaseTransport | httpx.AsyncBaseTransport) -> None:
        self._transport: Any = transport
        self._exchanges: list[dict[str, Any]] = []

    @property
    def lines(self) -> list[str]:
        """The lines of the recording. That of a stream is complete when the stream has ended."""
        return [json.dumps(exchange) for exchange in self._exchanges]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request, and records it."""
        response: httpx.Response = self._transport.handle_request(request)
        response.stream = _Copy(response.stream, self._add(request, response))
        return response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request, and records it."""
        response: httpx.Response = await self._transport.handle_async_request(request)
        response.stream = _Copy(response.stream, self._add(request, response))
        return response

    def _add(self, request: httpx.Request, response: httpx.Response) -> Callable[[bytes], None]:
        """Adds an exchange without the body of the response, and returns the function that adds it."""
        path = request.url.raw_path.decode()
        headers = {name: value for name, value in response.headers.items() if name not in _OF_CONNECTION}
        # A body that is sent in pieces is gone.
        sent = request.content if isinstance(request.stream, httpx.ByteStream) else b""
        exchange: dict[str, Any] = {
            "request": {"method": request.method, "path": path, **_body(sent, request.headers)},
            "response": {"status": response.status_code, "headers": headers},
        }
        self._exchanges.append(exchange)
        return lambda content: exchange["response"].update(_body(content, response.headers))

    def close(self) -> None:
        """Closes the other transport."""
        self._transport.close()

    async def aclose(self) -> None:
        """Closes the other transport."""
        await self._transport.aclose()


def record(transport: httpx.BaseTransport | httpx.AsyncBaseTransport) -> RecordingTransport:
    """Wraps a transport, such as `httpx.AsyncHTTPTransport()`, and collects `lines`. Keys are not in them."""
    return RecordingTransport(transport)


class _Copy(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that is kept as it passes, and handed over when it is closed."""

    def __init__(self, stream: Any, done: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._done = done
        self._pieces: list[bytes] = []

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            self._pieces.append(piece)
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._pieces.append(piece)
            yield piece

    def close(self) -> None:
        self._done(b"".join(self._pieces))
        self._stream.close()

    async def aclose(self) -> None:
        self._done(b"".join(self._pieces))
        await self._stream.aclose()


def _normal(path: str) -> tuple[str, list[tuple[str, str]]]:
    """Returns a path and its query in a form that does not depend on its encoding."""
    parts = urlsplit(path)
    return parts.path, sorted(parse_qsl(parts.query, keep_blank_values=True))


def _response(recording: dict[str, Any]) -> httpx.Response:
    body = recording.get("body") or {}
    if "json" in body:
        content = json.dumps(body["json"]).encode()
    else:
        content = base64.b64decode(body["base64"]) if "base64" in body else body.get("text", "").encode()
    # A stream, because the client reads all bodies as streams.
    stream = httpx.ByteStream(content)
    return httpx.Response(recording["status"], headers=recording.get("headers"), stream=stream)


def _body(content: bytes, headers: httpx.Headers) -> dict[str, Any]:
    if not content:
        return {}
    if headers.get("content-type", "").startswith("application/json"):
        return {"body": {"json": _without_secrets(json.loads(content))}}
    try:
        return {"body": {"text": content.decode()}}
    except UnicodeDecodeError:
        return {"body": {"base64": base64.b64encode(content).decode()}}


def _without_secrets(value: Any) -> Any:
    """Returns a value of JSON without the secrets of new keys and webhooks."""
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: "removed" if name == "secret" and isinstance(item, str) else _without_secrets(item)
        for name, item in value.items()
    }
