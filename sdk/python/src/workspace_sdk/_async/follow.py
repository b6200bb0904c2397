"""The output of a command, across lost connections and restarts of the server, without loss or repetition."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from .._command import Characters, StreamEvent
from .._deadline import Deadline
from .._errors import ConnectionLostError, ServerUnreachableError, WorkspaceError
from .._sse import EventParser
from .._values import random_id
from .transport import Request, Stream, Transport, is_passing, new_patience, path_of


class Follow:
    """Reads the events of a command from an offset on. With a body, starts the command first."""

    def __init__(
        self,
        transport: Transport,
        sandbox: str,
        command_id: str,
        *,
        body: dict[str, Any] | None = None,
        offset: int = 0,
        deadline: Deadline,
        idempotency_key: str | None = None,
    ) -> None:
        self._transport = transport
        self._sandbox = sandbox
        self.command_id = command_id
        """Id of the command."""
        self.headers: Mapping[str, str] = {}
        """Headers of the last response."""
        self._body = body
        self._key = idempotency_key or random_id()
        self._deadline = deadline
        self._position = offset
        self._events: deque[StreamEvent] = deque()
        self._stream: Stream | None = None
        self._parser = EventParser()
        self._characters = Characters()
        self._patience = new_patience()
        self._attempt = 0
        self._may_run = False
        self.was_sent = False
        """Whether the command may have been started."""
        self.has_started = body is None
        """Whether an event of the command has arrived."""
        self.has_ended = False
        """Whether there is nothing to kill: the command has ended, or has not started."""

    async def next(self) -> StreamEvent | None:
        """Returns the next event; `None` after `exit`."""
        while True:
            if self._events:
                return self._take(self._events.popleft())
            if self.has_ended:
                return None
            try:
                await self._read()
            except WorkspaceError as error:
                await self.close()
                error.attempts = self._attempt
                if isinstance(error, ServerUnreachableError) and not self._may_run:
                    self.was_sent = False
                if not self._events:
                    await self._recover(error)

    def _take(self, event: StreamEvent) -> StreamEvent:
        if event.type == "exit":
            self.has_ended = True
        return event

    async def _read(self) -> None:
        """Waits for the next piece of the stream."""
        if self._stream is None:
            self._attempt += 1
            self._parser = EventParser()
            self._stream = await self._transport.open_once(self._request())
            self.headers = self._stream.headers
        piece = await self._stream.next()
        if piece is None:
            raise ConnectionLostError("the server ended the stream before the command ended", retry="unknown")
        # A heartbeat also shows that the connection works.
        self._patience.reset()
        for event in self._parser.feed(piece):
            if event.name == "stopping":
                raise ConnectionLostError("the server is stopping", retry="unknown")
            # The id is the offset at which the following output begins.
            if event.id is not None:
                self._position = int(event.id)
            if event.data:
                parsed = StreamEvent.parse(event.data)
                self.has_started = True
                self._events.extend(self._characters.add(parsed))

    def _request(self) -> Request:
        if self.has_started or self._body is None:
            path = path_of("sandboxes", self._sandbox, "process", self.command_id, "output")
            query = {"offset": self._position}
            return Request("GET", path, query=query, deadline=self._deadline, is_stream=True)
        # The same id attaches to the command if an earlier attempt has started it.
        path = path_of("sandboxes", self._sandbox, "process", "run")
        self.was_sent = True
        return Request(
            "POST", path, json=self._body, deadline=self._deadline, idempotency_key=self._key, is_stream=True
        )

    async def _recover(self, error: WorkspaceError) -> None:
        """Waits before the stream is opened again; raises an error that a retry does not help against."""
        if self._is_lost(error):
            await self._transport.pause_patiently(self._patience, self._deadline, error)
            return
        pause = self._transport.retry.pause(error, self._attempt, repeatable=True)
        if pause is None:
            # Without an earlier attempt, the response says that the command has not started.
            self.has_ended = not self._may_run and error.status is not None
            raise error
        await self._transport.pause(pause, self._deadline, error)

    def _is_lost(self, error: WorkspaceError) -> bool:
        """Tells whether the error ended the stream of a command that may be running."""
        self._may_run = self._may_run or self.has_started or isinstance(error, ConnectionLostError)
        return self._may_run and is_passing(error)

    async def close(self) -> None:
        """Releases the connection; the command goes on."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.close()
