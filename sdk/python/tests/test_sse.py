"""The parser of server-sent events."""

from __future__ import annotations

import pytest

from workspace_sdk._sse import MAX_EVENT_SIZE, EventParser, EventTooLargeError, ServerEvent

STREAM = (
    ": still there\n\n"
    'event: stdout\nid: 7\ndata: {"data":"a\\n"}\n\n'
    "data: one\ndata:two\nunknown: x\n\n"
    "id: 9\ndata: ü\n\n"
).encode()
EVENTS = [
    ServerEvent("stdout", "7", b'{"data":"a\\n"}'),
    ServerEvent("message", None, b"one\ntwo"),
    ServerEvent("message", "9", "ü".encode()),
]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_events_are_the_same_wherever_the_stream_is_cut(newline: bytes) -> None:
    # A lone carriage return at the end may be the first half of a newline, so one more byte ends the stream.
    stream = STREAM.replace(b"\n", newline) + b":"
    for first in range(len(stream)):
        for second in range(first, len(stream)):
            parser = EventParser()
            pieces = (stream[:first], stream[first:second], stream[second:])
            assert [event for piece in pieces for event in parser.feed(piece)] == EVENTS


def test_events_are_the_same_byte_by_byte() -> None:
    parser = EventParser()
    assert [event for byte in STREAM for event in parser.feed(bytes([byte]))] == EVENTS


def test_an_event_that_is_not_complete_waits_for_the_rest() -> None:
    parser = EventParser()
    assert parser.feed(b"data: x\n") == []
    assert parser.feed(b"\n") == [ServerEvent("message", None, b"x")]


def test_an_id_without_data_is_an_event() -> None:
    assert EventParser().feed(b": begun\nid: 42\n\n") == [ServerEvent("message", "42", b"")]


def test_an_event_without_an_end_does_not_fill_the_memory() -> None:
    parser = EventParser()
    piece = b"x" * (MAX_EVENT_SIZE // 4)
    for _ in range(4):
        parser.feed(piece)
    with pytest.raises(EventTooLargeError):
        parser.feed(b"x")
