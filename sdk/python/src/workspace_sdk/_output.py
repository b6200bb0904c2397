"""Collects the output of a command."""

from __future__ import annotations

from collections.abc import Mapping

from ._command import CommandResult, StreamEvent
from ._generated.errors import ProcessTimeoutError
from ._values import body_of

MAX_COLLECTED = 16 << 20
"""Bytes of both streams that are collected, unless the caller sets a limit."""


class Output:
    """The output of a command so far, up to a limit of bytes."""

    def __init__(self, command_id: str, limit: int | None = None) -> None:
        self._command_id = command_id
        self._room = MAX_COLLECTED if limit is None else limit
        self._parts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self._truncated = False
        self._exit: StreamEvent | None = None

    def add(self, event: StreamEvent) -> None:
        """Adds an event."""
        if event.type in self._parts:
            self._add_data(event)
        elif event.type == "gap":
            self._truncated = True
        elif event.type == "exit":
            self._exit = event

    def _add_data(self, event: StreamEvent) -> None:
        data = event.raw
        # After a reconnect, the server sends output without the limit of the first request.
        if len(data) > self._room:
            data = data[: self._room]
            self._truncated = True
        self._room -= len(data)
        self._parts[event.type].append(data)

    def result(self) -> CommandResult:
        """Returns the result of a command that has ended."""
        stdout, stderr = (b"".join(parts) for parts in self._parts.values())
        end = self._exit
        if end is None or end.exit_code is None:
            raise AssertionError("the output has no exit")
        return CommandResult(
            command_id=self._command_id,
            exit_code=end.exit_code,
            stdout=stdout.decode("utf-8", "replace"),
            stderr=stderr.decode("utf-8", "replace"),
            signal=end.signal,
            truncated=self._truncated or end.truncated,
            timed_out=end.timed_out,
            stdout_bytes=stdout,
            stderr_bytes=stderr,
        )


def timed_out(result: CommandResult, headers: Mapping[str, str]) -> ProcessTimeoutError:
    """Returns the error for a command that its time-out has killed, as the server describes it."""
    return ProcessTimeoutError(
        "the command did not end within its timeout and was killed",
        code=4001,
        name="PROCESS_TIMEOUT",
        status=422,
        request_id=headers.get("x-request-id"),
        headers=headers,
        remediation="Set a longer `timeout`, or start the command and attach to it.",
        details=body_of(
            command_id=result.command_id,
            exit_code=result.exit_code,
            signal=result.signal,
            stdout=result.stdout,
            stderr=result.stderr,
            truncated=result.truncated,
            timed_out=True,
        ),
    )
