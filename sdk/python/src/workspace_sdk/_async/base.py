"""The base of all services and objects: sends a request and returns its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .._deadline import Deadline
from .transport import Answer, Content, Request, Transport, path_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, Wait

T = TypeVar("T")


class Service:
    """Sends requests below one path of the API."""

    def __init__(self, transport: Transport, *base: str) -> None:
        self._transport = transport
        self._base = base

    def _path(self, *parts: str | int) -> str:
        return path_of(*self._base, *parts)

    async def _send(
        self,
        method: str,
        *parts: str | int,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **call: Unpack[Call],
    ) -> Answer:
        """Returns the response to a request. `timeout` is a lower limit for the setting of the client."""
        if timeout is not None:
            timeout = max(timeout, self._transport.timeout)
        request = Request(
            method,
            self._path(*parts),
            query=query or {},
            json=body,
            content=content,
            headers=headers or {},
            timeout=timeout,
            deadline=Deadline(call.get("deadline")),
            idempotency_key=call.get("idempotency_key"),
        )
        return await self._transport.send(request)

    async def _get(
        self,
        parse: Callable[[bytes], T],
        *parts: str | int,
        query: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **wait: Unpack[Wait],
    ) -> T:
        """Returns the parsed response to a GET request."""
        return parse((await self._send("GET", *parts, query=query, timeout=timeout, **wait)).content)

    async def _post(
        self,
        parse: Callable[[bytes], T],
        *parts: str | int,
        body: Any = None,
        timeout: float | None = None,
        **call: Unpack[Call],
    ) -> T:
        """Returns the parsed response to a POST request."""
        return parse((await self._send("POST", *parts, body=body, timeout=timeout, **call)).content)
