"""Snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from .._handle import SnapshotFields, TakenFields
from .._lazy import models
from .._values import Ref, ref, ref_or_none
from .base import Service
from .content import Data, content_of
from .diffs import Compared
from .files import ReadFiles
from .pages import Pages
from .transport import VERY_LONG, Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, Wait


class _Kept(Service):
    """The methods of a snapshot."""

    def __init__(self, transport: Transport, snapshot: str) -> None:
        super().__init__(transport, "snapshots", snapshot)
        self.files = ReadFiles(transport, "snapshots", snapshot)
        """The files of the snapshot."""

    async def rename(self, name: str | None, **options: Unpack[Call]) -> Snapshot:
        """Gives the snapshot a name, which keeps it; `None` removes the name."""
        answer = await self._send("PATCH", body={"name": name}, **options)
        return Snapshot(self._transport, models.Snapshot.model_validate_json(answer.content))


class Snapshot(SnapshotFields, _Kept):
    """One state of a file tree."""

    def __init__(self, transport: Transport, data: models.Snapshot) -> None:
        self._data = data
        _Kept.__init__(self, transport, data.id)


class SnapshotTaken(TakenFields, _Kept):
    """A snapshot that was just taken or imported."""

    def __init__(self, transport: Transport, data: models.SnapshotTaken) -> None:
        self._data = data
        _Kept.__init__(self, transport, data.id)


class Snapshots(Compared):
    """The snapshots of the tenant."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "snapshots")

    def list(
        self,
        *,
        workspace: Ref | None = None,
        name_prefix: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **wait: Unpack[Wait],
    ) -> Pages[Snapshot]:
        """Lists snapshots, newest first."""
        query = {"workspace": ref_or_none(workspace), "name_prefix": name_prefix, "limit": limit, "cursor": cursor}
        parse = models.SnapshotPage.model_validate_json
        return Pages(self._transport, self._path(), query, parse, lambda item: Snapshot(self._transport, item), **wait)

    async def get(self, snapshot: Ref, **wait: Unpack[Wait]) -> Snapshot:
        """Returns a snapshot, by its id or name."""
        return Snapshot(self._transport, await self._get(models.Snapshot.model_validate_json, ref(snapshot), **wait))

    async def import_(self, tar: Data, **options: Unpack[Call]) -> SnapshotTaken:
        """Stores a tar (plain, gzip or zstd) as a snapshot."""
        headers = {"Content-Type": "application/x-tar"}
        answer = await self._send("POST", content=content_of(tar), headers=headers, timeout=VERY_LONG, **options)
        return SnapshotTaken(self._transport, models.SnapshotTaken.model_validate_json(answer.content))

    @overload
    async def diff(
        self, from_: Ref, to: Ref, *, stat: Literal[False] = ..., limit: int | None = ..., **wait: Unpack[Wait]
    ) -> models.Diff: ...

    @overload
    async def diff(
        self, from_: Ref, to: Ref, *, stat: Literal[True], limit: int | None = ..., **wait: Unpack[Wait]
    ) -> models.DiffStat: ...

    async def diff(
        self, from_: Ref, to: Ref, *, stat: bool = False, limit: int | None = None, **wait: Unpack[Wait]
    ) -> models.Diff | models.DiffStat:
        """Returns the changes between two snapshots; with `stat`, the number of lines."""
        return await self._diff({"from": ref(from_), "to": ref(to), "limit": limit}, stat, **wait)

    async def patch(self, from_: Ref, to: Ref, **wait: Unpack[Wait]) -> str:
        """Returns the changes between two snapshots as a patch."""
        return await self._patch({"from": ref(from_), "to": ref(to)}, **wait)
