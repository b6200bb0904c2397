"""Bodies of uploads: text, bytes, files, and pieces as they come."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from pathlib import Path
from typing import IO, Any

from ._runtime import in_thread
from .transport import Content

PIECE = 256 << 10
"""Bytes that are read of a file at once."""

Data = str | bytes | Path | IO[bytes] | Iterable[bytes] | AsyncIterable[bytes]
"""Data to upload. Pieces from an iterator can be sent once only, so such a request is not repeated."""


def content_of(data: Data) -> Content:
    """Returns the body for the data."""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    if isinstance(data, Path):
        return lambda: _pieces_of_path(data)
    if hasattr(data, "read"):
        return _of_file(data)
    if isinstance(data, AsyncIterable):
        return data
    if isinstance(data, Iterable):
        return _pieces(data)
    raise TypeError(f"the data is {type(data).__name__}, not text, bytes, a file or pieces of bytes")


def _of_file(file: Any) -> Content:
    if not file.seekable():
        return _pieces_of_file(file, None)
    start = file.tell()
    return lambda: _pieces_of_file(file, start)


async def _pieces_of_path(path: Path) -> AsyncIterator[bytes]:
    file = await in_thread(path.open, "rb")
    try:
        async for piece in _pieces_of_file(file, None):
            yield piece
    finally:
        file.close()


async def _pieces_of_file(file: Any, start: int | None) -> AsyncIterator[bytes]:
    if start is not None:
        file.seek(start)
    while piece := await in_thread(file.read, PIECE):
        yield piece


async def _pieces(data: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in data:
        yield piece
