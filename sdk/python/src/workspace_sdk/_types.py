"""Values that the async and the sync client share: parameters, pages and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._values import Option, Ref, body_of, ref, ref_or_none

if TYPE_CHECKING:
    from ._generated import models

T = TypeVar("T")


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
            others = [field for field in ("existing", "fork", "directory") if getattr(self, field) is not None]
            if others:
                raise ValueError(f"a workspace of a project does not begin as `{others[0]}`")
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
