"""Commands in a sandbox."""

from __future__ import annotations

import base64
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from .._command import CommandResult, OnAbort, StreamEvent, signal_number
from .._deadline import Deadline
from .._generated.errors import ProcessNotFoundError
from .._lazy import models
from .._output import Output, timed_out
from .._values import body_of, random_id
from ._runtime import Callback, call, closing, finish, new_condition, sleep
from .base import Service
from .follow import Follow
from .pages import Pages
from .transport import Request, Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, Wait

KILL_TIME = 10.0
"""Seconds for the request that kills a command whose caller has left."""

INPUT_SIZE = 1 << 20
"""Bytes of input in one request."""


class CommandOptions(TypedDict, total=False):
    """Options of a command."""

    cwd: str | None
    """Working directory; `/workspace` by default."""
    envs: Mapping[str, str] | None
    """Environment variables, in addition to those of the sandbox."""
    timeout: float | None
    """Seconds until the server kills the command: 60 by default, none for `start`; 0 means no limit."""
    command_id: str | None
    """Id of the command; by default one that the client chooses."""
    stdin: str | bytes | None
    """Standard input of the command."""
    max_output_size: int | None
    """Bytes of output after which the rest is discarded; by default, `run` collects 16 MiB."""
    idempotency_key: str | None
    """Name of the request."""


class Process(Service):
    """The commands of one sandbox."""

    def __init__(self, transport: Transport, sandbox: str) -> None:
        super().__init__(transport, "sandboxes", sandbox, "process")
        self._sandbox = sandbox

    async def run(
        self,
        command: str | Sequence[str],
        *,
        on_stdout: Callback[str] | None = None,
        on_stderr: Callback[str] | None = None,
        on_abort: OnAbort = "kill",
        deadline: float | None = None,
        **options: Unpack[CommandOptions],
    ) -> CommandResult:
        """Runs a command and returns its result. An exit code other than 0 is a result, not an error.

        `command` is a line for `/bin/sh`, or a program and its arguments. `on_stdout` and `on_stderr` get the output
        as it arrives. If the caller stops waiting, the command is killed, unless `on_abort` is `leave`. Raises
        `ProcessTimeoutError` if the command takes longer than its `timeout`.
        """
        follow = self._follow(command, options, deadline)
        output = Output(follow.command_id, options.get("max_output_size"))
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        async with closing(self._events(follow, on_abort)) as events:
            async for event in events:
                output.add(event)
                callback = callbacks.get(event.type)
                if callback is not None:
                    await call(callback, event.data)
        result = output.result()
        if result.timed_out:
            raise timed_out(result, follow.headers)
        return result

    async def run_stream(
        self,
        command: str | Sequence[str],
        *,
        on_abort: OnAbort = "kill",
        deadline: float | None = None,
        **options: Unpack[CommandOptions],
    ) -> AsyncGenerator[StreamEvent, None]:
        """Runs a command and yields its events; the last one is `exit`.

        Output that the server no longer has is an event `gap`. If the caller stops waiting or closes the generator,
        the command is killed, unless `on_abort` is `leave`.
        """
        async with closing(self._events(self._follow(command, options, deadline), on_abort)) as events:
            async for event in events:
                yield event

    def _follow(self, command: str | Sequence[str], options: CommandOptions, deadline: float | None) -> Follow:
        body = command_body(command, options, stream=True)
        return Follow(
            self._transport,
            self._sandbox,
            body["commandId"],
            body=body,
            deadline=Deadline(deadline),
            idempotency_key=options.get("idempotency_key"),
        )

    async def _events(self, follow: Follow, on_abort: OnAbort) -> AsyncGenerator[StreamEvent, None]:
        """Yields the events of a command, and kills it if the caller leaves."""
        ending = CommandEnding(self._transport, self._path(follow.command_id, "kill"), follow)
        if on_abort == "kill":
            self._transport.add_ending(ending.kill)
        try:
            while (event := await follow.next()) is not None:
                yield event
        finally:
            if on_abort == "leave" or not ending.is_needed():
                await follow.close()
            else:
                await finish(ending.kill, KILL_TIME)
            self._transport.remove_ending(ending.kill)

    async def start(
        self,
        command: str | Sequence[str],
        *,
        open_stdin: bool = True,
        deadline: float | None = None,
        **options: Unpack[CommandOptions],
    ) -> Command:
        """Starts a command in the background and returns it. Its standard input is open, unless `open_stdin` is false.

        The command has no time-out by default, and the server keeps the newest part of its output.
        """
        body = command_body(command, options, background=True, open_stdin=open_stdin or None)
        key = options.get("idempotency_key")
        await self._send("POST", "run", body=body, deadline=deadline, idempotency_key=key)
        return Command(self, body["commandId"])

    async def attach(self, command_id: str, *, offset: int = 0, **wait: Unpack[Wait]) -> Command:
        """Returns a command that was started earlier. Its events begin at an offset in its output."""
        await self.get(command_id, **wait)
        return Command(self, command_id, offset)

    async def kill(self, command_id: str, signal: int | str = "SIGTERM", **options: Unpack[Call]) -> None:
        """Sends a signal to a command and its child processes."""
        await self._send("POST", command_id, "kill", body={"signal": signal_number(signal)}, **options)

    async def get(self, command_id: str, **wait: Unpack[Wait]) -> models.CommandInfo:
        """Returns the state of a command."""
        return await self._get(models.CommandInfo.model_validate_json, command_id, **wait)

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, **wait: Unpack[Wait]
    ) -> Pages[models.CommandInfo]:
        """Lists the commands of the sandbox."""
        query = {"limit": limit, "cursor": cursor}
        return Pages(self._transport, self._path(), query, models.CommandPage.model_validate_json, **wait)

    async def follow(self, command_id: str, offset: int, deadline: float | None) -> AsyncGenerator[StreamEvent, None]:
        """Yields the events of a command, which goes on if the caller leaves."""
        follow = Follow(self._transport, self._sandbox, command_id, offset=offset, deadline=Deadline(deadline))
        try:
            while (event := await follow.next()) is not None:
                yield event
        finally:
            await follow.close()

    async def write(self, command_id: str, data: str | bytes, *, eof: bool = False, **options: Unpack[Call]) -> None:
        """Sends data to the standard input of a command; with `eof`, closes it."""
        raw = data.encode() if isinstance(data, str) else data
        pieces = [raw[at : at + INPUT_SIZE] for at in range(0, len(raw), INPUT_SIZE)]
        bodies: list[dict[str, Any]] = [{"data": base64.b64encode(piece).decode()} for piece in pieces]
        key, end = options.pop("idempotency_key", None), Deadline(options.get("deadline"))
        for number, body in enumerate([*bodies, {"eof": True}] if eof else bodies):
            # Each request has its own body, so it needs its own name.
            options["idempotency_key"] = f"{key}.{number}" if key and number else key
            options["deadline"] = end.remaining()
            await self._send("POST", command_id, "input", body=body, **options)


class CommandEnding:
    """The end of a command whose caller has left, or whose client is closed."""

    def __init__(self, transport: Transport, path: str, follow: Follow) -> None:
        self._transport = transport
        self._path = path
        self._follow = follow
        self._lock = new_condition()
        self._is_done = False

    def is_needed(self) -> bool:
        """Tells whether the command may be running."""
        return self._follow.was_sent and not self._follow.has_ended

    async def kill(self) -> None:
        """Releases the connection, and kills the command once, also if the caller and the client end together."""
        async with self._lock:
            await self._follow.close()
            if self.is_needed() and not self._is_done:
                await self._kill(Deadline(KILL_TIME))
            self._is_done = True

    async def _kill(self, end: Deadline) -> None:
        """Sends the signal. Waits for a command that the server may be about to start."""
        body = {"signal": signal_number("SIGKILL")}
        while True:
            try:
                await self._transport.send(Request("POST", self._path, json=body, deadline=end, is_last=True))
                return
            except ProcessNotFoundError:
                if self._follow.has_started:
                    return
            await sleep(0.2)


class Command:
    """A command in the background. Iterate over it for its events; it goes on if the caller leaves."""

    def __init__(self, process: Process, command_id: str, offset: int = 0) -> None:
        self._process = process
        self._offset = offset
        self.id = command_id
        """Id of the command."""

    def __repr__(self) -> str:
        return f"Command(id={self.id!r})"

    def __aiter__(self) -> AsyncGenerator[StreamEvent, None]:
        return self.events()

    def events(self, *, deadline: float | None = None) -> AsyncGenerator[StreamEvent, None]:
        """Yields the events, from the offset of `attach` or from the first on."""
        return self._process.follow(self.id, self._offset, deadline)

    async def write(self, data: str | bytes, **options: Unpack[Call]) -> None:
        """Sends data to the standard input of the command."""
        await self._process.write(self.id, data, **options)

    async def close_stdin(self, **options: Unpack[Call]) -> None:
        """Closes the standard input of the command."""
        await self._process.write(self.id, b"", eof=True, **options)

    async def kill(self, signal: int | str = "SIGTERM", **options: Unpack[Call]) -> None:
        """Sends a signal to the command and its child processes."""
        await self._process.kill(self.id, signal, **options)

    async def wait(self, *, deadline: float | None = None) -> CommandResult:
        """Returns the result when the command has ended, with the output that the server still has."""
        output = Output(self.id)
        async with closing(self.events(deadline=deadline)) as events:
            async for event in events:
                output.add(event)
        return output.result()


def new_command_id() -> str:
    """Returns an id for a command."""
    return f"py-{random_id()}"


def command_body(command: str | Sequence[str], options: CommandOptions, **more: Any) -> dict[str, Any]:
    """Returns the body of the request that runs a command."""
    timeout, stdin = options.get("timeout"), options.get("stdin")
    return body_of(
        **({"command": command} if isinstance(command, str) else {"args": list(command)}),
        command_id=options.get("command_id") or new_command_id(),
        cwd=options.get("cwd"),
        envs=options.get("envs"),
        # 0 means no limit, so a shorter time than a millisecond must not become 0.
        timeout=None if timeout is None else math.ceil(timeout * 1000),
        max_output_size=options.get("max_output_size"),
        stdin=stdin if isinstance(stdin, str) else None,
        stdin_base64=base64.b64encode(stdin).decode() if isinstance(stdin, bytes) else None,
        **more,
    )
