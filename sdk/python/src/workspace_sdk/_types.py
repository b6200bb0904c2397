"""Values that the async and the sync client share: parameters, results, events and pages."""

from __future__ import annotations

import base64
import json
import signal as signals
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from ._errors import CommandExitError, WorkspaceError, from_body

if TYPE_CHECKING:
    from ._generated import models

T = TypeVar("T")

OnAbort = Literal["kill", "leave"]
"""What happens to a command when its caller stops waiting."""


class HasId(Protocol):
    """An object with an id, such as a sandbox or a snapshot."""

    @property
    def id(self) -> str:
        """The id."""
        ...


Ref = str | HasId
"""The id or name of an object, or the object itself."""

Option = Mapping[str, Any] | None
"""An object with the names of the API, such as `{"memory": "512m"}`."""


def ref(value: Ref) -> str:
    """Returns the id or name of an object."""
    return value if isinstance(value, str) else value.id


def ref_or_none(value: Ref | None) -> str | None:
    """Returns the id or name of an object, if there is one."""
    return None if value is None else ref(value)


def body_of(**values: Any) -> dict[str, Any]:
    """Returns a body without the values that are `None`. Names become camel case, and models objects."""
    return {camel(name): plain(value) for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    """Returns a value for JSON: a model as its object, with the names of the API."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def camel(name: str) -> str:
    """Returns `some_name` as `someName`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def signal_number(signal: int | str) -> int:
    """Returns the number of a signal, which may be given as `15`, `"SIGTERM"` or `"TERM"`."""
    if isinstance(signal, int):
        return int(signal)
    name = signal.upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    try:
        return _LINUX_SIGNALS.get(name) or signals.Signals[name].value
    except KeyError:
        raise ValueError(f"`{signal}` is not a signal; use a number or a name such as SIGTERM") from None


# The numbers of the sandbox, which may differ from those of the caller's system.
_LINUX_SIGNALS = {
    "SIGHUP": 1,
    "SIGINT": 2,
    "SIGQUIT": 3,
    "SIGKILL": 9,
    "SIGUSR1": 10,
    "SIGUSR2": 12,
    "SIGPIPE": 13,
    "SIGALRM": 14,
    "SIGTERM": 15,
    "SIGCHLD": 17,
    "SIGCONT": 18,
    "SIGSTOP": 19,
    "SIGTSTP": 20,
    "SIGWINCH": 28,
}


@dataclass
class CreateSandboxParams:
    """The parameters of `client.sandbox.create`.

    The workspace is empty, or begins as one of `project`, `snapshot`, `existing`, `fork` and `directory`.
    """

    template: str
    """Name of the template."""
    name: str | None = None
    """Name of the sandbox, unique in its tenant."""
    project: Ref | None = None
    """The project whose files the workspace has."""
    agent: Ref | None = None
    """The agent that works in the workspace of a project."""
    snapshot: Ref | None = None
    """The snapshot that the workspace begins as; with `project`, the version of the project."""
    existing: Ref | None = None
    """A workspace that no sandbox uses."""
    fork: Ref | None = None
    """A sandbox whose current files the workspace has."""
    directory: str | None = None
    """A directory on the machine of the server."""
    read_only: bool | None = None
    """Whether the workspace of a project is read-only."""
    sync: models.Sync | Option = None
    """How the workspace is synchronised with its project."""
    envs: Mapping[str, str] | None = None
    """Environment variables of every process in the sandbox."""
    metadata: Mapping[str, str] | None = None
    """Pairs that label the sandbox."""
    network: str | None = None
    """Network access: `none` or `internet`."""
    on_expiry: str | None = None
    """Treatment of the workspace when the sandbox expires: `park` or `delete`."""
    resources: models.Resources | Option = None
    """Limits: `cpu`, `memory`, `disk` and `pids`."""
    runtime: str | None = None
    """An OCI runtime of the container engine."""
    timeout_seconds: int | None = None
    """Seconds until the sandbox expires."""

    def body(self) -> dict[str, Any]:
        """Returns the body of the request."""
        source = ("project", "agent", "snapshot", "existing", "fork", "directory", "read_only", "sync")
        rest = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in source}
        return body_of(**rest, workspace=self._workspace())

    def _workspace(self) -> dict[str, Any] | None:
        if self.project is not None:
            name, agent, snapshot = ref(self.project), ref_or_none(self.agent), ref_or_none(self.snapshot)
            read_only, sync = self.read_only, self.sync
            return {"project": body_of(name=name, agent=agent, snapshot=snapshot, read_only=read_only, sync=sync)}
        if self.agent is not None or self.read_only is not None or self.sync is not None:
            raise ValueError("`agent`, `read_only` and `sync` need a `project`")
        sources = body_of(
            snapshot=ref_or_none(self.snapshot),
            existing=ref_or_none(self.existing),
            fork=ref_or_none(self.fork),
            directory=self.directory,
        )
        if len(sources) > 1:
            raise ValueError(f"a workspace begins as one of {', '.join(sources)}, not as several of them")
        return sources or None


@dataclass(slots=True)
class StreamEvent:
    """An event of a command: `start`, `stdout`, `stderr`, `gap` or `exit`."""

    type: str
    """Kind of the event."""
    command_id: str
    """Id of the command."""
    data: str
    """Output as text. Bytes that are not UTF-8 are replaced; `raw` has them."""
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

    _bytes: bytes | None = field(default=None, repr=False)

    @property
    def raw(self) -> bytes:
        """The output as bytes."""
        return self.data.encode() if self._bytes is None else self._bytes

    @classmethod
    def parse(cls, text: bytes) -> StreamEvent:
        """Returns the event of the data of a server-sent event. Raises the error of an event `error`."""
        value = json.loads(text)
        if value["type"] == "error":
            raise from_body(value.get("error") or {}, 500)
        data, raw = value.get("data") or "", None
        if value.get("encoding") == "base64":
            raw = base64.b64decode(data)
            data = raw.decode("utf-8", "replace")
        get = value.get
        return cls(
            value["type"],
            value["commandId"],
            data,
            get("offset"),
            get("end"),
            get("exitCode"),
            get("signal"),
            get("timedOut", False),
            get("truncated", False),
            value["timestamp"],
            raw,
        )


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


@dataclass
class TerminalExit:
    """The end of a terminal."""

    exit_code: int
    """Exit code of the program; 128 plus the number of the signal if one killed it."""
    signal: int | None = None
    """The signal that killed the program."""


@dataclass
class EventGap:
    """Stands for events that the server no longer has."""

    oldest: int
    """Id of the oldest event that the server has; earlier ones may be missing."""
    kind: str = "gap"
    """Always `gap`."""


@dataclass
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    """The items of the page."""
    next: str | None = None
    """Cursor of the next page; `None` on the last page."""
    total: int | None = None
    """Number of items on all pages, if the server counts them."""
    page: int | None = None
    """Number of the page, if the pages have numbers."""
    gap: models.EventGap | None = None
    """Of a page of events: events after the cursor were deleted."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass
class Batch(Generic[T]):
    """The results of a request for several objects."""

    succeeded: list[T]
    """The results of those that succeeded."""
    failed: list[models.Failed] = field(default_factory=list)
    """Id and error of those that failed."""


@dataclass
class SeenResponse:
    """A response of the server, as `with_raw_response` records it."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]

    @property
    def request_id(self) -> str | None:
        """Id of the request, by which the log of the server has more about it."""
        return self.headers.get("x-request-id")


class SeenResponses(list[SeenResponse]):
    """The responses to the calls in a block, in order. `status`, `headers` and `request_id` are of the last."""

    def _last(self) -> SeenResponse:
        if not self:
            raise WorkspaceError("no response has arrived in this block", remediation="Call the client first.")
        return self[-1]

    @property
    def status(self) -> int:
        """Status of the last response."""
        return self._last().status

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the last response."""
        return self._last().headers

    @property
    def request_id(self) -> str | None:
        """Id of the last request."""
        return self._last().request_id
