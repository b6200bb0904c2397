"""Snapshots, diffs and merges: the methods that sandboxes and workspaces share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from .._lazy import models
from .._values import Ref, body_of, ref, ref_or_none
from .base import Service
from .diffs import Compared
from .snapshots import SnapshotTaken
from .transport import VERY_LONG, Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, MergeOptions, Wait


def merge_body(options: MergeOptions) -> tuple[dict[str, Any], Call]:
    """Returns the body of a merge, and the options of its request."""
    names = ("message", "atomic", "dry_run", "renames", "strategy")
    body = body_of(**{name: options.get(name) for name in names})
    return body, {"deadline": options.get("deadline"), "idempotency_key": options.get("idempotency_key")}


class Versioned(Compared):
    """An object with files that can be compared, kept and merged."""

    def __init__(self, transport: Transport, kind: str, identity: str, workspace: str) -> None:
        super().__init__(transport, kind, identity)
        self._merging = Service(transport, "workspaces", workspace)

    async def snapshot(
        self, *, message: str | None = None, name: str | None = None, **options: Unpack[Call]
    ) -> SnapshotTaken:
        """Keeps the current state of the files. A snapshot with a name is kept until the name is removed."""
        body = body_of(message=message, name=name)
        parse = models.SnapshotTaken.model_validate_json
        taken = await self._post(parse, "snapshot", body=body, timeout=VERY_LONG, **options)
        return SnapshotTaken(self._transport, taken)

    @overload
    async def diff(
        self, *, from_: Ref | None = ..., stat: Literal[False] = ..., limit: int | None = ..., **wait: Unpack[Wait]
    ) -> models.Diff: ...

    @overload
    async def diff(
        self, *, from_: Ref | None = ..., stat: Literal[True], limit: int | None = ..., **wait: Unpack[Wait]
    ) -> models.DiffStat: ...

    async def diff(
        self, *, from_: Ref | None = None, stat: bool = False, limit: int | None = None, **wait: Unpack[Wait]
    ) -> models.Diff | models.DiffStat:
        """Returns the changes since the start of the workspace, since a snapshot, or since the `last` one.

        With `stat`, returns the number of lines that were added and removed.
        """
        return await self._diff({"from": ref_or_none(from_), "limit": limit}, stat, **wait)

    async def patch(self, *, from_: Ref | None = None, **wait: Unpack[Wait]) -> str:
        """Returns the changes as a patch that `git apply` accepts."""
        return await self._patch({"from": ref_or_none(from_)}, **wait)

    async def _restore(self, snapshot: Ref, **options: Unpack[Call]) -> bytes:
        body = {"snapshot": ref(snapshot)}
        return (await self._send("POST", "restore", body=body, timeout=VERY_LONG, **options)).content

    async def merge(self, **options: Unpack[MergeOptions]) -> models.MergeResult:
        """Merges the changes of the workspace into its project."""
        return await self._merge("merge", options)

    async def _merge(self, verb: str, options: MergeOptions) -> models.MergeResult:
        body, rest = merge_body(options)
        parse = models.MergeResult.model_validate_json
        return await self._merging._post(parse, verb, body=body, timeout=VERY_LONG, **rest)

    async def _refresh(self, dry_run: bool | None, **options: Unpack[Call]) -> models.Refreshed:
        body = body_of(dry_run=dry_run)
        parse = models.Refreshed.model_validate_json
        return await self._merging._post(parse, "refresh", body=body, timeout=VERY_LONG, **options)
