"""Events and results of commands."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic_core import from_json

from ._errors import CommandExitError, from_body
from ._values import body_of

OnAbort = Literal["kill", "leave"]
"""What happens to a command when its caller stops waiting."""

# The signals of Linux from 1 on: those of the sandbox, which may differ from those of the caller's system.
_SIGNALS = [
    "HUP",
    "INT",
    "QUIT",
    "ILL",
    "TRAP",
    "ABRT",
    "BUS",
    "FPE",
    "KILL",
    "USR1",
    "SEGV",
    "USR2",
    "PIPE",
    "ALRM",
    "TERM",
    "STKFLT",
    "CHLD",
    "CONT",
    "STOP",
    "TSTP",
    "TTIN",
    "TTOU",
    "URG",
    "XCPU",
    "XFSZ",
    "VTALRM",
    "PROF",
    "WINCH",
    "IO",
    "PWR",
    "SYS",
]


def signal_number(signal: int | str) -> int:
    """Returns the number of a signal, which may be given as `15`, `"SIGTERM"` or `"TERM"`."""
    if isinstance(signal, int):
        return int(signal)
    name = signal.upper().removeprefix("SIG")
    if name not in _SIGNALS:
        raise ValueError(f"`{signal}` is not a signal; use a number or a name such as SIGTERM")
    return _SIGNALS.index(name) + 1


@dataclass(slots=True, repr=False)
class StreamEvent:
    """An event of a command: `start`, `stdout`, `stderr`, `gap` or `exit`."""

    type: str
    """Kind of the event."""
    command_id: str
    """Id of the command."""
    offset: int | None
    """Offset in the output at which `data` or a gap begins, or at which the output ended."""
    end: int | None
    """Offset at which a gap ends."""
    exit_code: int | None
    """Exit code of the command (`exit`)."""
    signal: int | None
    """The signal that killed the command (`exit`)."""
    timed_out: bool
    """Whether the command was killed by its time-out (`exit`)."""
    truncated: bool
    """Whether output was discarded because of `max_output_size` (`exit`)."""
    timestamp: int
    """Time of the event, in milliseconds since 1970."""
    _data: str
    _is_base64: bool
    _before: bytes = b""
    _after: int = 0

    @property
    def data(self) -> str:
        """Output as text. Bytes that are not UTF-8 are replaced; `raw` has them.

        A character whose bytes are in two events is in the second one.
        """
        if not self._is_base64 and not self._before:
            return self._data
        known = self._before + self.raw
        return known[: len(known) - self._after].decode("utf-8", "replace")

    @property
    def raw(self) -> bytes:
        """Output as bytes."""
        return base64.b64decode(self._data) if self._is_base64 else self._data.encode()

    def __repr__(self) -> str:
        shown = {"data": self.data or None, "exit_code": self.exit_code, "signal": self.signal, "offset": self.offset}
        rest = "".join(f", {name}={value!r}" for name, value in shown.items() if value is not None)
        return f"StreamEvent(type={self.type!r}{rest})"

    @classmethod
    def parse(cls, text: bytes) -> StreamEvent:
        """Returns the event of the data of a server-sent event. Raises the error of an event `error`."""
        value = from_json(text)
        if value["type"] == "error":
            raise from_body(value.get("error") or {}, 500)
        get = value.get
        return cls(
            value["type"],
            value["commandId"],
            get("offset"),
            get("end"),
            get("exitCode"),
            get("signal"),
            get("timedOut", False),
            get("truncated", False),
            value["timestamp"],
            # Decoded when the caller reads it, because that takes longer than all the rest.
            get("data") or "",
            get("encoding") == "base64",
        )


class Characters:
    """Carries the first bytes of a character over to the event that has the rest, for each stream of a command."""

    def __init__(self) -> None:
        self._halves: dict[str, bytes] = {}

    def add(self, event: StreamEvent) -> list[StreamEvent]:
        """Returns the event, after one for each character whose rest does not come."""
        if event.type in ("stdout", "stderr"):
            before = self._halves.pop(event.type, b"")
            if before or event._is_base64:
                half = self._half(event, before)
                event._before, event._after = before, len(half)
                if half:
                    self._halves[event.type] = half
            return [event]
        if not self._halves or event.type not in ("gap", "exit"):
            return [event]
        rests = [
            replace(event, type=name, end=None, exit_code=None, signal=None, _before=half)
            for name, half in self._halves.items()
        ]
        self._halves.clear()
        return [*rests, event]

    @staticmethod
    def _half(event: StreamEvent, before: bytes) -> bytes:
        if not event._is_base64:
            return b"" if event._data else before
        # The last characters of base64 are enough, so that the rest is decoded only if the caller reads it.
        end = base64.b64decode(event._data[-8:])
        return _incomplete(end if len(event._data) > 8 else before + end)


def _incomplete(data: bytes) -> bytes:
    """Returns the bytes at the end of the data that begin a character of UTF-8 whose rest is missing."""
    for length in range(1, min(len(data), 3) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[-length:] if size > length else b""
        if byte < 0x80:
            break
    return b""


@dataclass
class CommandResult:
    """The result of a command."""

    command_id: str
    """Id of the command."""
    exit_code: int
    """Exit code; 128 plus the number of the signal if one killed the command."""
    stdout: str
    """Standard output. Bytes that are not UTF-8 are replaced; `stdout_bytes` has them."""
    stderr: str
    """Standard error."""
    signal: int | None = None
    """The signal that killed the command."""
    truncated: bool = False
    """Whether output is missing: beyond `max_output_size`, or no longer kept by the server."""
    timed_out: bool = False
    """Whether the command was killed by its time-out."""
    stdout_bytes: bytes = field(default=b"", repr=False)
    """Standard output as bytes."""
    stderr_bytes: bytes = field(default=b"", repr=False)
    """Standard error as bytes."""

    def check(self) -> CommandResult:
        """Returns the result. Raises `CommandExitError` if the exit code is not 0."""
        if self.exit_code == 0:
            return self
        last = (self.stderr or self.stdout).strip().splitlines()[-1:]
        message = f"the command ended with the exit code {self.exit_code}" + "".join(f": {line}" for line in last)
        details = body_of(command_id=self.command_id, exit_code=self.exit_code, stdout=self.stdout, stderr=self.stderr)
        raise CommandExitError(message, result=self, details=details)
