"""Parses a stream of server-sent events, in pieces that are cut anywhere."""

from __future__ import annotations

from typing import NamedTuple

MAX_EVENT_SIZE = 16 << 20
"""Bytes of the largest event; the server sends far smaller ones."""


class ServerEvent(NamedTuple):
    """An event: its name, its id, and its data."""

    name: str
    id: str | None
    data: bytes


class EventTooLargeError(ValueError):
    """An event is larger than `MAX_EVENT_SIZE`."""


class EventParser:
    """Takes pieces of a stream and returns the events that are complete."""

    def __init__(self) -> None:
        self._buffer = b""
        self._searched = 0
        self._held = b""

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Adds a piece, and returns the events that it completes."""
        if self._held or b"\r" in piece:
            piece = self._with_newlines(piece)
        buffer = self._buffer + piece if self._buffer else piece
        events: list[ServerEvent] = []
        start = 0
        # The last byte that was searched may be the first of the two newlines.
        end = buffer.find(b"\n\n", max(self._searched - 1, 0))
        while end >= 0:
            event = _parse(buffer[start:end])
            if event is not None:
                events.append(event)
            start = end + 2
            end = buffer.find(b"\n\n", start)
        self._buffer = buffer[start:] if start else buffer
        self._searched = len(self._buffer)
        if self._searched > MAX_EVENT_SIZE:
            raise EventTooLargeError(f"an event is larger than {MAX_EVENT_SIZE} bytes")
        return events

    def _with_newlines(self, piece: bytes) -> bytes:
        """Returns the piece with one newline at each end of a line. Holds a carriage return at the end of the piece."""
        piece = self._held + piece
        self._held = b"\r" if piece.endswith(b"\r") else b""
        return piece.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse(block: bytes) -> ServerEvent | None:
    """Returns the event of a block of lines; `None` if the block has only comments."""
    name, identity, data = "message", None, None
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data = value if data is None else data + b"\n" + value
        elif field == b"id":
            identity = value.decode()
        elif field == b"event":
            name = value.decode()
    return None if data is None else ServerEvent(name, identity, data)
