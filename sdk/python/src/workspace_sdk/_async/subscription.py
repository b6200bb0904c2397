"""Streams of server-sent events without an end, across lost connections."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable

from .._errors import ConnectionLostError, WorkspaceError, from_body
from .._retry import Patience
from .._sse import EventParser, ServerEvent
from .transport import Request, Stream, Transport, is_passing, new_patience


async def subscribe(transport: Transport, request: Callable[[], Request]) -> AsyncGenerator[ServerEvent, None]:
    """Yields events. Calls `request` for each connection, so that it can say where the stream continues."""
    patience = new_patience()
    while True:
        current = request()
        stream = await transport.open_patiently(current, patience)
        parser = EventParser()
        try:
            while True:
                events, lost = await _next_events(stream, parser, patience)
                for event in events:
                    yield event
                if lost is not None:
                    break
        finally:
            await stream.close()
        await transport.pause_patiently(patience, current.deadline, lost)


async def _next_events(
    stream: Stream, parser: EventParser, patience: Patience
) -> tuple[list[ServerEvent], WorkspaceError | None]:
    """Returns the events that arrive next, and why the connection ended, if it did."""
    events: list[ServerEvent] = []
    try:
        piece = await stream.next()
        if piece is None:
            raise ConnectionLostError("the server ended the stream")
        # A heartbeat also shows that the connection works.
        patience.reset()
        for event in parser.feed(piece):
            if event.name == "error":
                raise from_body(json.loads(event.data).get("error", {}), 500)
            if event.name == "stopping":
                raise ConnectionLostError("the server is stopping")
            events.append(event)
    except WorkspaceError as error:
        if not is_passing(error):
            raise
        return events, error
    return events, None
