"""HTTP/1.1 messages as bytes, so that the proxy passes them on unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

PIECE = 256 * 1024
LONGEST_HEAD = 256 * 1024


class Ended(Exception):
    """The other side closed the connection within a message."""


class Source:
    """The bytes that arrive on a connection.

    A task can wait for the end of the connection while no message is read. What arrives
    meanwhile stays in the buffer.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._buffer = bytearray()

    async def fill(self) -> bool:
        """Waits for more bytes; returns whether there are any. A reset is an end, too."""
        try:
            piece = await self._reader.read(PIECE)
        except ConnectionError:
            return False
        self._buffer += piece
        return bool(piece)

    async def until_closed(self) -> None:
        """Returns when the other side has closed the connection."""
        while await self.fill():
            pass

    async def until(self, end: bytes) -> bytes:
        """Returns all bytes up to and including `end`."""
        searched = 0
        while (at := self._buffer.find(end, max(0, searched - len(end)))) < 0:
            searched = len(self._buffer)
            if searched > LONGEST_HEAD or not await self.fill():
                raise Ended
        return self._take(at + len(end))

    async def some(self, most: int) -> bytes:
        """Returns at least one byte, and at most `most`; none at the end of the connection."""
        if not self._buffer:
            await self.fill()
        return self._take(min(most, len(self._buffer)))

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


@dataclass
class Head:
    """The first line and the headers of a message."""

    raw: bytes
    first: list[str]
    headers: list[tuple[str, str]]

    def get(self, name: str) -> str | None:
        """Returns the first header of this name (in lower case)."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def status(self) -> int:
        """The status of a response."""
        return int(self.first[1])

    @property
    def keeps_connection(self) -> bool:
        """Returns whether another message may follow on the connection."""
        return (self.get("connection") or "").lower() != "close"


async def read_head(source: Source) -> Head:
    """Reads the head of a request or a response."""
    raw = await source.until(b"\r\n\r\n")
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    return Head(raw, first.split(" ", 2), headers)


@dataclass
class Piece:
    """A part of a body: as it is on the wire, and without the framing of chunks."""

    raw: bytes
    data: bytes


def request_body(head: Head, source: Source) -> AsyncIterator[Piece]:
    """Returns the body of a request."""
    if (head.get("transfer-encoding") or "").lower() == "chunked":
        return _chunks(source)
    return _counted(source, int(head.get("content-length") or 0))


def response_body(head: Head, source: Source, method: str) -> AsyncIterator[Piece]:
    """Returns the body of the response to a request with this method."""
    if method == "HEAD" or head.status in (204, 304) or head.status < 200:
        return _counted(source, 0)
    if (head.get("transfer-encoding") or "").lower() == "chunked":
        return _chunks(source)
    if (length := head.get("content-length")) is not None:
        return _counted(source, int(length))
    return everything(source)


async def everything(source: Source) -> AsyncIterator[Piece]:
    """Returns all bytes until the end of the connection."""
    while piece := await source.some(PIECE):
        yield Piece(piece, piece)


async def _counted(source: Source, length: int) -> AsyncIterator[Piece]:
    while length:
        piece = await source.some(min(length, PIECE))
        if not piece:
            raise Ended
        length -= len(piece)
        yield Piece(piece, piece)


async def _chunks(source: Source) -> AsyncIterator[Piece]:
    while True:
        line = await source.until(b"\r\n")
        left = int(line.split(b";")[0], 16)
        if not left:
            break
        yield Piece(line, b"")
        async for piece in _counted(source, left):
            yield piece
        yield Piece(await source.until(b"\r\n"), b"")
    while line != b"\r\n":
        yield Piece(line, b"")
        line = await source.until(b"\r\n")
    yield Piece(line, b"")


def simple_response(status: int, headers: dict[str, str], body: bytes) -> bytes:
    """Returns a complete response."""
    lines = [f"HTTP/1.1 {status} Stage", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
