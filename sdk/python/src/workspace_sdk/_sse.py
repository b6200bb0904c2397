"""Parses a stream of server-sent events, in pieces that are cut anywhere."""

from __future__ import annotations

from typing import NamedTuple

from ._errors import WorkspaceError

MAX_EVENT_SIZE = 16 << 20
"""Bytes of the largest event; the server sends far smaller ones."""


class ServerEvent(NamedTuple):
    """An event: its name, its id, and its data, which is empty if the event only has an id."""

    name: str
    id: str | None
    data: bytes


class EventTooLargeError(WorkspaceError):
    """An event is larger than `MAX_EVENT_SIZE`."""


class EventParser:
    """Takes pieces of a stream and returns the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._held = b""
        self._begin()

    def _begin(self) -> None:
        """Begins an event."""
        self._name = "message"
        self._id: str | None = None
        self._data: bytes | None = None

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Adds a piece, and returns the events that it completes."""
        if self._held or b"\r" in piece:
            piece = self._with_newlines(piece)
        searched = len(self._rest)
        text = self._rest + piece if searched else piece
        events: list[ServerEvent] = []
        start = 0
        end = text.find(b"\n", searched)
        while end >= 0:
            if end > start:
                self._add(text[start:end])
            else:
                # A block with only an id says where a stream continues after a lost connection.
                if self._data is not None or self._id is not None:
                    events.append(ServerEvent(self._name, self._id, self._data or b""))
                self._begin()
            start = end + 1
            end = text.find(b"\n", start)
        self._rest = text[start:] if start else text
        if len(self._rest) + len(self._data or b"") > MAX_EVENT_SIZE:
            raise EventTooLargeError(f"an event is larger than {MAX_EVENT_SIZE} bytes")
        return events

    def _add(self, line: bytes) -> None:
        """Adds a line to the event. Ignores comments and unknown fields."""
        # Most bytes are in lines with data, so these are copied only once.
        if line.startswith(b"data: "):
            field, value = b"data", line[6:]
        else:
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
        if field == b"data":
            self._data = value if self._data is None else self._data + b"\n" + value
        elif field == b"id":
            self._id = value.decode()
        elif field == b"event":
            self._name = value.decode()

    def _with_newlines(self, piece: bytes) -> bytes:
        """Returns the piece with one newline at each end of a line. Holds a carriage return at the end of the piece."""
        piece = self._held + piece
        self._held = b"\r" if piece.endswith(b"\r") else b""
        return piece.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
