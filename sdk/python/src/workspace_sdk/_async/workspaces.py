"""Workspaces: writable copies of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._handle import WorkspaceFields
from .._lazy import models
from .._types import Batch
from .._values import Option, Ref, body_of, ref, ref_or_none
from .base import Service
from .files import Files
from .pages import Pages
from .transport import LONG, VERY_LONG, Transport
from .versions import Versioned

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, MergeOptions, Wait


class Workspace(WorkspaceFields, Versioned):
    """A writable copy of a project for one agent."""

    def __init__(self, transport: Transport, data: models.Workspace) -> None:
        self._data = data
        Versioned.__init__(self, transport, "workspaces", data.id, data.id)
        self.files = Files(transport, "workspaces", data.id)
        """The files of the workspace."""

    def _take(self, content: bytes) -> Workspace:
        self._data = models.Workspace.model_validate_json(content)
        return self

    async def reload(self, **wait: Unpack[Wait]) -> Workspace:
        """Reads the fields again, and returns the workspace."""
        return self._take((await self._send("GET", **wait)).content)

    async def delete(self, **options: Unpack[Call]) -> None:
        """Deletes the workspace, with changes that were not merged."""
        await self._send("DELETE", **options)

    async def fork(
        self, *, count: int | None = None, name: str | None = None, **options: Unpack[Call]
    ) -> Batch[Workspace]:
        """Creates workspaces with the current files of this one."""
        body = body_of(count=count, name=name)
        forked = await self._post(
            models.WorkspacesForked.model_validate_json, "fork", body=body, timeout=LONG, **options
        )
        return Batch([Workspace(self._transport, item) for item in forked.succeeded], forked.failed)

    async def restore(self, snapshot: Ref, **options: Unpack[Call]) -> Workspace:
        """Replaces the files by those of a snapshot, and returns the workspace."""
        return self._take(await self._restore(snapshot, **options))

    async def complete(self, **options: Unpack[MergeOptions]) -> models.MergeResult:
        """Merges the changes of the workspace into its project, and deletes the workspace if all has landed."""
        return await self._merge("complete", options)

    async def refresh(self, *, dry_run: bool | None = None, **options: Unpack[Call]) -> models.Refreshed:
        """Brings the newer head of the project into the workspace."""
        return await self._refresh(dry_run, **options)

    async def park(self, **options: Unpack[Call]) -> Workspace:
        """Moves the files into the store and removes the directory. Returns the workspace."""
        return self._take((await self._send("POST", "park", timeout=VERY_LONG, **options)).content)

    async def resume(self, **options: Unpack[Call]) -> Workspace:
        """Creates the directory of a parked workspace again. Returns the workspace."""
        return self._take((await self._send("POST", "resume", timeout=VERY_LONG, **options)).content)


class Workspaces(Service):
    """The workspaces that the key may see."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "workspaces")

    async def create(
        self,
        *,
        project: Ref,
        name: str | None = None,
        agent: Ref | None = None,
        disk: str | None = None,
        owner: str | None = None,
        read_only: bool | None = None,
        snapshot: Ref | None = None,
        sync: models.Sync | Option = None,
        **options: Unpack[Call],
    ) -> Workspace:
        """Creates a workspace of a project, as a directory on the machine of the server."""
        body = body_of(
            project=ref(project),
            name=name,
            agent=ref_or_none(agent),
            disk=disk,
            owner=owner,
            read_only=read_only,
            snapshot=ref_or_none(snapshot),
            sync=sync,
        )
        parse = models.Workspace.model_validate_json
        return Workspace(self._transport, await self._post(parse, body=body, timeout=LONG, **options))

    async def get(self, workspace: Ref, **wait: Unpack[Wait]) -> Workspace:
        """Returns a workspace, by its id or name."""
        data = await self._get(models.Workspace.model_validate_json, ref(workspace), **wait)
        return Workspace(self._transport, data)

    def list(
        self,
        *,
        project: Ref | None = None,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **wait: Unpack[Wait],
    ) -> Pages[Workspace]:
        """Lists workspaces; `state` is `live` or `parked`."""
        query = {"project": ref_or_none(project), "state": state, "limit": limit, "cursor": cursor}
        parse = models.WorkspacePage.model_validate_json
        return Pages(self._transport, self._path(), query, parse, lambda item: Workspace(self._transport, item), **wait)

    async def delete(self, workspace: Ref, **options: Unpack[Call]) -> None:
        """Deletes a workspace, with changes that were not merged."""
        await self._send("DELETE", ref(workspace), **options)
