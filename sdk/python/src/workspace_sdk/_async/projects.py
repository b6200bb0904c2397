"""Projects: shared trees of files with a history."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from .._handle import ProjectFields
from .._lazy import models
from .._tar import pack
from .._types import Batch
from .._values import Option, Ref, body_of, ref, ref_or_none
from ._runtime import in_thread
from .base import Service
from .content import Data, content_of
from .diffs import Compared
from .files import ReadFiles
from .pages import Pages
from .transport import VERY_LONG, Transport
from .versions import merge_body

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, MergeOptions, Wait


class Project(ProjectFields, Compared):
    """A shared tree of files with a head, a history, a policy and reviews."""

    def __init__(self, transport: Transport, data: models.Project) -> None:
        self._data = data
        Compared.__init__(self, transport, "projects", data.id)
        self.files = ReadFiles(transport, "projects", data.id)
        """The files of the head, or of the version that `snapshot` names."""

    def _take(self, content: bytes) -> Project:
        self._data = models.Project.model_validate_json(content)
        return self

    async def reload(self, **wait: Unpack[Wait]) -> Project:
        """Reads the fields again, and returns the project."""
        return self._take((await self._send("GET", **wait)).content)

    async def delete(self, **options: Unpack[Call]) -> None:
        """Deletes the project."""
        await self._send("DELETE", **options)

    async def update(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        retention: Option = None,
        **options: Unpack[Call],
    ) -> Project:
        """Changes the name, the description or the retention, and returns the project."""
        body = body_of(name=name, description=description, retention=retention)
        return self._take((await self._send("PATCH", body=body, **options)).content)

    async def apply(
        self,
        *,
        files: Sequence[Mapping[str, Any]] | None = None,
        patch: str | None = None,
        base: Ref | None = None,
        merge: models.Merge | Option = None,
        **options: Unpack[Call],
    ) -> models.MergeResult:
        """Changes files without a workspace: `files` with `path` and `content`, or a `patch` of `git diff`."""
        body = body_of(files=files, patch=patch, base=ref_or_none(base), merge=merge)
        return await self._landed("apply", body, **options)

    async def _landed(self, verb: str, body: dict[str, Any], **options: Unpack[Call]) -> models.MergeResult:
        parse = models.MergeResult.model_validate_json
        return await self._post(parse, verb, body=body, timeout=VERY_LONG, **options)

    async def import_(
        self, tar: Data, *, path: str | None = None, dry_run: bool | None = None, **options: Unpack[Call]
    ) -> models.ImportResult:
        """Replaces the files below a path by those of a tar (plain, gzip or zstd)."""
        headers, query = {"Content-Type": "application/x-tar"}, {"path": path, "dryRun": dry_run}
        content = content_of(tar)
        answer = await self._send(
            "PUT", "archive", query=query, content=content, headers=headers, timeout=VERY_LONG, **options
        )
        return models.ImportResult.model_validate_json(answer.content)

    async def import_directory(
        self, directory: str | os.PathLike[str], *, path: str | None = None, **options: Unpack[Call]
    ) -> models.ImportResult:
        """Replaces the files below a path by those of a local directory."""
        with await in_thread(pack, directory) as file:
            return await self.import_(file, path=path, **options)

    async def merge(self, workspaces: Sequence[Ref], **options: Unpack[MergeOptions]) -> Batch[models.WorkspaceMerged]:
        """Merges workspaces, one after the other; with `atomic`, all of them or none."""
        body, rest = merge_body(options)
        body["workspaces"] = [ref(item) for item in workspaces]
        parse = models.WorkspacesMerged.model_validate_json
        merged = await self._post(parse, "merge", body=body, timeout=VERY_LONG, **rest)
        return Batch(merged.succeeded, merged.failed)

    def steps(
        self,
        *,
        until: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **wait: Unpack[Wait],
    ) -> Pages[models.Step]:
        """Lists the steps of the history, newest first."""
        query = {"until": until, "limit": limit, "cursor": cursor}
        return Pages(self._transport, self._path("steps"), query, models.StepPage.model_validate_json, **wait)

    async def get_step(self, number: int, **wait: Unpack[Wait]) -> models.Step:
        """Returns a step of the history; the field `step` is the number of the newest."""
        return await self._get(models.Step.model_validate_json, "steps", number, **wait)

    def changes(
        self,
        step: int,
        *,
        path: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **wait: Unpack[Wait],
    ) -> Pages[models.FileVersion]:
        """Lists the files that a step changed."""
        query = {"path": path, "limit": limit, "cursor": cursor}
        target = self._path("steps", step, "changes")
        return Pages(self._transport, target, query, models.VersionPage.model_validate_json, **wait)

    @overload
    async def diff(
        self,
        *,
        from_: Ref | None = ...,
        to: Ref | None = ...,
        stat: Literal[False] = ...,
        limit: int | None = ...,
        **wait: Unpack[Wait],
    ) -> models.Diff: ...

    @overload
    async def diff(
        self,
        *,
        from_: Ref | None = ...,
        to: Ref | None = ...,
        stat: Literal[True],
        limit: int | None = ...,
        **wait: Unpack[Wait],
    ) -> models.DiffStat: ...

    async def diff(
        self,
        *,
        from_: Ref | None = None,
        to: Ref | None = None,
        stat: bool = False,
        limit: int | None = None,
        **wait: Unpack[Wait],
    ) -> models.Diff | models.DiffStat:
        """Returns the changes between two versions; with `stat`, the number of lines."""
        query = {"from": ref_or_none(from_), "to": ref_or_none(to), "limit": limit}
        return await self._diff(query, stat, **wait)

    async def patch(self, *, from_: Ref | None = None, to: Ref | None = None, **wait: Unpack[Wait]) -> str:
        """Returns the changes between two versions as a patch."""
        return await self._patch({"from": ref_or_none(from_), "to": ref_or_none(to)}, **wait)

    def history(
        self, path: str, *, limit: int | None = None, cursor: str | None = None, **wait: Unpack[Wait]
    ) -> Pages[models.FileVersion]:
        """Lists the versions of a file, newest first."""
        query = {"path": path, "limit": limit, "cursor": cursor}
        return Pages(self._transport, self._path("history"), query, models.VersionPage.model_validate_json, **wait)

    async def blame(self, path: str, *, snapshot: Ref | None = None, **wait: Unpack[Wait]) -> models.Blame:
        """Returns the step that each line of a file came from."""
        query = {"path": path, "snapshot": ref_or_none(snapshot)}
        return await self._get(models.Blame.model_validate_json, "blame", query=query, **wait)

    async def revert(
        self,
        *,
        snapshot: Ref,
        path: str | None = None,
        merge: models.Merge | Option = None,
        **options: Unpack[Call],
    ) -> models.MergeResult:
        """Undoes the step that created a version, or its changes below a path."""
        body = body_of(snapshot=ref(snapshot), path=path, merge=merge)
        return await self._landed("revert", body, **options)

    async def restore(
        self, *, path: str, snapshot: Ref, merge: models.Merge | Option = None, **options: Unpack[Call]
    ) -> models.MergeResult:
        """Brings a path back to its state in a version."""
        body = body_of(path=path, snapshot=ref(snapshot), merge=merge)
        return await self._landed("restore", body, **options)

    def tags(self, *, limit: int | None = None, cursor: str | None = None, **wait: Unpack[Wait]) -> Pages[models.Tag]:
        """Lists the tags."""
        query = {"limit": limit, "cursor": cursor}
        return Pages(self._transport, self._path("tags"), query, models.TagPage.model_validate_json, **wait)

    async def tag(
        self,
        name: str,
        *,
        snapshot: Ref | None = None,
        message: str | None = None,
        move: bool | None = None,
        **options: Unpack[Call],
    ) -> models.Tag:
        """Gives a version, by default the head, a name that keeps it."""
        body = body_of(name=name, snapshot=ref_or_none(snapshot), message=message, move=move)
        return await self._post(models.Tag.model_validate_json, "tags", body=body, **options)

    async def delete_tag(self, name: str, **options: Unpack[Call]) -> None:
        """Deletes a tag; the version stays."""
        await self._send("DELETE", "tags", name, **options)

    async def policy(self, **wait: Unpack[Wait]) -> models.ProjectPolicy:
        """Returns the policy and its version."""
        return await self._get(models.ProjectPolicy.model_validate_json, "policy", **wait)

    async def set_policy(
        self,
        policy: models.Policy | Mapping[str, Any],
        *,
        expected_version: int | None = None,
        **options: Unpack[Call],
    ) -> models.ProjectPolicy:
        """Replaces the policy; with `expected_version`, only if it has this version."""
        body = body_of(policy=policy, expected_version=expected_version)
        answer = await self._send("PUT", "policy", body=body, **options)
        return models.ProjectPolicy.model_validate_json(answer.content)


class Projects(Service):
    """The projects of the tenant."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "projects")

    async def create(
        self,
        *,
        name: str,
        description: str | None = None,
        policy: models.Policy | Option = None,
        retention: Option = None,
        snapshot: Ref | None = None,
        **options: Unpack[Call],
    ) -> Project:
        """Creates a project: empty, or with the files of a snapshot."""
        body = body_of(
            name=name, description=description, policy=policy, retention=retention, snapshot=ref_or_none(snapshot)
        )
        return Project(self._transport, await self._post(models.Project.model_validate_json, body=body, **options))

    async def get(self, project: Ref, **wait: Unpack[Wait]) -> Project:
        """Returns a project, by its id or name."""
        return Project(self._transport, await self._get(models.Project.model_validate_json, ref(project), **wait))

    def list(self, *, limit: int | None = None, cursor: str | None = None, **wait: Unpack[Wait]) -> Pages[Project]:
        """Lists the projects."""
        query, parse = {"limit": limit, "cursor": cursor}, models.ProjectPage.model_validate_json
        return Pages(self._transport, self._path(), query, parse, lambda item: Project(self._transport, item), **wait)

    async def delete(self, project: Ref, **options: Unpack[Call]) -> None:
        """Deletes a project."""
        await self._send("DELETE", ref(project), **options)
