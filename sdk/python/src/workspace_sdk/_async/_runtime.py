"""The parts of the client that differ between asyncio and threads. `_sync` has the same names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import httpx

from .._deadline import Deadline
from .._lazy import asyncio
from .._socket import SOCKET_OPTIONS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from websockets.asyncio.client import ClientConnection

    from .._types import Page

T = TypeVar("T")
R = TypeVar("R")

HttpClient = httpx.AsyncClient
HttpTransport = httpx.AsyncBaseTransport
closing = aclosing
Callback = Callable[[T], Any]
"""A function, which may be a coroutine function."""
Work = Callable[[], Coroutine[Any, Any, None]]

__all__ = [
    "Body",
    "Callback",
    "HttpClient",
    "HttpTransport",
    "OnePage",
    "Task",
    "Work",
    "call",
    "close_http",
    "closing",
    "connect_socket",
    "finish",
    "gather",
    "in_thread",
    "limited",
    "new_condition",
    "sleep",
    "wait_for",
]


async def sleep(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


@contextmanager
def limited(deadline: Deadline) -> Iterator[None]:
    """Ends the block at the deadline, with its error."""
    if not deadline:
        yield
        return
    import anyio

    with anyio.move_on_after(deadline.remaining()) as scope:
        yield
    if scope.cancelled_caught:
        raise deadline.error()


async def close_http(http: HttpClient) -> None:
    """Closes all connections."""
    await http.aclose()


class Body:
    """The body of a response, in pieces as they arrive."""

    def __init__(self, response: httpx.Response, deadline: Deadline) -> None:
        self._response = response
        # A transport of a test may return a response that has been read.
        self._pieces: AsyncIterator[bytes] = (
            response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw()
        )
        self._deadline = deadline

    async def next(self) -> bytes | None:
        """Returns the next piece; `None` at the end."""
        try:
            if not self._deadline:
                return await self._pieces.__anext__()
            with limited(self._deadline):
                return await self._pieces.__anext__()
        except StopAsyncIteration:
            return None

    async def close(self) -> None:
        """Releases the connection."""
        await self._response.aclose()


async def finish(work: Work, seconds: float) -> None:
    """Runs the work to its end, for at most `seconds`, also if the task is cancelled meanwhile. Ignores its error."""
    import anyio

    was_cancelled = False
    # The end of `asyncio.run` cancels every task, also that of the work; then the work runs once more.
    for _ in range(2):
        task = asyncio.ensure_future(asyncio.wait_for(work(), seconds))
        while not task.done():
            try:
                with anyio.CancelScope(shield=True):
                    await asyncio.wait({task})
            except asyncio.CancelledError:
                was_cancelled = True
        if not task.cancelled():
            task.exception()
            break
    if was_cancelled:
        raise asyncio.CancelledError


async def call(callback: Callback[T], value: T) -> None:
    """Calls a callback, and awaits it if it is a coroutine function."""
    result = callback(value)
    if isinstance(result, Awaitable):
        await result


async def in_thread(function: Callable[..., R], *arguments: Any) -> R:
    """Runs a function that works with files, without holding up other tasks."""
    import anyio.to_thread

    return await anyio.to_thread.run_sync(lambda: function(*arguments))


async def gather(function: Callable[[T], Awaitable[R]], items: Iterable[T], limit: int | None) -> list[R]:
    """Returns the results of the function for all items, in their order; cancels the others after an error."""
    room = asyncio.Semaphore(limit) if limit else None

    async def one(item: T) -> R:
        if room is None:
            return await function(item)
        async with room:
            return await function(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        # A cancelled command is killed before its task ends.
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class Task:
    """Work in the background."""

    def __init__(self, work: Work) -> None:
        self._task = asyncio.ensure_future(work())

    async def stop(self) -> None:
        """Ends the work."""
        if self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait({self._task})


def new_condition() -> asyncio.Condition:
    """Returns a lock whose holder can wait for a change."""
    return asyncio.Condition()


async def wait_for(condition: asyncio.Condition, deadline: Deadline) -> None:
    """Waits until the condition, which the caller holds, is notified."""
    with limited(deadline):
        await condition.wait()


async def connect_socket(
    url: str, headers: Mapping[str, str], context: ssl.SSLContext | None, *, by_proxy: bool
) -> ClientConnection:
    """Opens a WebSocket, by the proxy of the environment if there is one."""
    from websockets.asyncio.client import connect

    class Connect(connect):
        """A connection that does not follow redirects, because the key would go to another server."""

        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    return await Connect(url, additional_headers=headers, ssl=context, proxy=by_proxy or None, **SOCKET_OPTIONS)


class OnePage(Generic[T]):
    """A list that can be awaited for its first page."""

    async def page(self) -> Page[T]:
        """Returns one page."""
        raise NotImplementedError

    def __await__(self) -> Generator[Any, None, Page[T]]:
        return self.page().__await__()
