"""The parts of the client that differ between asyncio and threads. `_async` has the same names."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import httpx

from .._deadline import Deadline
from .._socket import SOCKET_OPTIONS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from websockets.sync.client import ClientConnection

    from .._types import Page

T = TypeVar("T")
R = TypeVar("R")

HttpClient = httpx.Client
HttpTransport = httpx.BaseTransport
Callback = Callable[[T], Any]
Work = Callable[[], None]

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

ABORT_TIME = 10.0
"""Seconds that `gather` waits for its other calls after an error."""

MOST_THREADS = 256
"""Threads that `gather` uses at most."""


def sleep(seconds: float) -> None:
    """Waits."""
    group = _group.get()
    if group is None:
        time.sleep(seconds)
    else:
        group.wait(seconds)


@contextmanager
def limited(deadline: Deadline) -> Iterator[None]:
    """Begins the block only before the deadline. The time-outs of the request end it."""
    group = _group.get()
    if group is not None:
        group.wait(0.0)
    if deadline.has_passed():
        raise deadline.error()
    yield


def close_http(http: HttpClient) -> None:
    """Closes all connections."""
    http.close()


class _Group:
    """The calls of one `gather`, which all end if one call fails or Ctrl-C is pressed."""

    def __init__(self) -> None:
        self._sockets: set[socket.socket] = set()
        self._inner: set[_Group] = set()
        self._aborted = threading.Event()
        self.ended: SimpleQueue[BaseException | None] = SimpleQueue()
        """The error of each thread that has ended, or `None`."""
        self.unfinished = 0
        """Number of calls that are cleaning up."""

    @property
    def is_aborted(self) -> bool:
        """Whether all calls are to end."""
        return self._aborted.is_set()

    def add(self, connection: socket.socket) -> None:
        """Adds the connection of a stream."""
        self._sockets.add(connection)
        if self.is_aborted:
            _end(connection)

    def remove(self, connection: socket.socket) -> None:
        """Removes the connection of a stream that has ended."""
        self._sockets.discard(connection)

    @contextmanager
    def inside(self, outer: _Group | None) -> Iterator[None]:
        """Ends this group with an outer one."""
        if outer is None:
            yield
            return
        outer._inner.add(self)
        try:
            outer.wait(0.0)
            yield
        finally:
            outer._inner.discard(self)

    def wait(self, seconds: float) -> None:
        """Waits, but not longer than until the calls are to end."""
        if self._aborted.wait(seconds):
            raise KeyboardInterrupt

    def abort(self) -> None:
        """Ends all streams, pauses and inner groups."""
        self._aborted.set()
        self.ended.put(KeyboardInterrupt())
        for connection in list(self._sockets):
            _end(connection)
        for group in list(self._inner):
            group.abort()

    def join(self, threads: list[threading.Thread]) -> None:
        """Waits until the calls have cleaned up. Leaves a call that waits for a response."""
        end = time.monotonic() + ABORT_TIME
        for thread in threads:
            while thread.is_alive() and (self.unfinished or time.monotonic() < end):
                try:
                    thread.join(0.1)
                except KeyboardInterrupt:
                    if not self.unfinished:
                        raise


_group: ContextVar[_Group | None] = ContextVar("group", default=None)


def _end(connection: socket.socket) -> None:
    """Ends a connection that another thread reads, which then gets an error."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Body:
    """The body of a response, in pieces as they arrive."""

    def __init__(self, response: httpx.Response, deadline: Deadline) -> None:
        self._response = response
        # A transport of a test may return a response that has been read.
        self._pieces: Iterator[bytes] = response.iter_bytes() if response.is_stream_consumed else response.iter_raw()
        self._deadline = deadline
        self._group = _group.get()
        stream = response.extensions.get("network_stream")
        self._socket: socket.socket | None = stream.get_extra_info("socket") if stream else None
        self._is_reading = False
        self._is_ended = False
        self._timer = self._start_timer()
        if self._group is not None and self._socket is not None:
            self._group.add(self._socket)

    def _start_timer(self) -> threading.Timer | None:
        """Ends the connection at the deadline: the time-out of a socket is that of one read, not of all."""
        if not self._deadline or self._socket is None:
            return None
        timer = threading.Timer(self._deadline.remaining() or 0.0, _end, (self._socket,))
        timer.daemon = True
        timer.start()
        return timer

    def next(self) -> bytes | None:
        """Returns the next piece; `None` at the end."""
        self._is_reading = True
        try:
            return next(self._pieces, None)
        finally:
            self._is_reading = False
            if self._is_ended:
                self._response.close()
            if self._group is not None and self._group.is_aborted:
                raise KeyboardInterrupt
            if self._deadline.has_passed():
                raise self._deadline.error()

    def close(self) -> None:
        """Releases the connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self._group is not None and self._socket is not None:
            self._group.remove(self._socket)
        self._is_ended = True
        if self._is_reading and self._socket is not None:
            # Another thread reads, and closes the response; a descriptor that is closed under it may be used again.
            _end(self._socket)
        else:
            self._response.close()


def finish(work: Work, seconds: float) -> None:
    """Runs the work to its end, also if Ctrl-C is pressed again. Ignores its error."""
    group = _group.get()
    if group is not None:
        group.unfinished += 1
    # An own context, because the end of a group must not end the work.
    thread = threading.Thread(target=Context().run, args=(_quietly, work), daemon=True)
    thread.start()
    interrupted: BaseException | None = None
    end = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < end:
        try:
            thread.join(max(end - time.monotonic(), 0.0))
        except KeyboardInterrupt as error:
            interrupted = error
    if group is not None:
        group.unfinished -= 1
    if interrupted is not None:
        raise interrupted


def _quietly(work: Work) -> None:
    with suppress(Exception):
        work()


def call(callback: Callback[T], value: T) -> None:
    """Calls a callback."""
    callback(value)


def in_thread(function: Callable[..., R], *arguments: Any) -> R:
    """Runs a function that works with files."""
    return function(*arguments)


def gather(function: Callable[[T], R], items: Iterable[T], limit: int | None) -> list[R]:
    """Returns the results of the function for all items, in their order, each in a thread.

    After an error, the streams of the others end, and so do their commands.
    """
    group, waiting = _Group(), deque(enumerate(items))
    results: dict[int, R] = {}
    number = len(waiting)

    def work() -> None:
        _group.set(group)
        while waiting and not group.is_aborted:
            try:
                at, item = waiting.popleft()
            except IndexError:
                return  # Another thread has taken the last one.
            results[at] = function(item)

    def report() -> None:
        try:
            work()
        except BaseException as error:
            group.ended.put(error)
        else:
            group.ended.put(None)

    count = min(number, limit or MOST_THREADS)
    # Daemons, because a call that waits for a response must not hold up the end of the program.
    threads = [threading.Thread(target=copy_context().run, args=(report,), daemon=True) for _ in range(count)]
    with group.inside(_group.get()):
        try:
            for thread in threads:
                thread.start()
            for _ in threads:
                error = group.ended.get()
                if error is not None:
                    raise error
        except BaseException:
            group.abort()
            group.join(threads)
            raise
    return [results[at] for at in range(number)]


class Task:
    """Work in the background."""

    def __init__(self, work: Work) -> None:
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits for the end of the work, which the caller has asked for."""
        if self._thread is not threading.current_thread():
            self._thread.join()


def new_condition() -> threading.Condition:
    """Returns a lock whose holder can wait for a change."""
    return threading.Condition()


def wait_for(condition: threading.Condition, deadline: Deadline) -> None:
    """Waits until the condition, which the caller holds, is notified."""
    if not condition.wait(deadline.remaining()) and deadline.has_passed():
        raise deadline.error()


def connect_socket(
    url: str, headers: Mapping[str, str], context: ssl.SSLContext | None, *, by_proxy: bool
) -> ClientConnection:
    """Opens a WebSocket, by the proxy of the environment if there is one."""
    from websockets.sync.client import connect

    connecting = connect(url, additional_headers=headers, ssl=context, proxy=by_proxy or None, **SOCKET_OPTIONS)
    # The caller closes the connection, which may be in use for longer than a block.
    opened: ClientConnection = connecting.__enter__()
    return opened


class OnePage(Generic[T]):
    """A list with pages."""

    def page(self) -> Page[T]:
        """Returns one page."""
        raise NotImplementedError
