"""The files of sandboxes, workspaces, projects and snapshots."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from .._deadline import Deadline
from .._errors import WorkspaceError
from .._generated.errors import PathNotFoundError
from .._lazy import models
from .._tar import new_file, pack, unpack
from .._values import body_of
from ._runtime import closing, in_thread
from .base import Service
from .content import Data, content_of
from .pages import Pages
from .subscription import subscribe
from .transport import VERY_LONG, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, Wait


class ReadFiles(Service):
    """Files that can be read: those of a project or a snapshot. Paths begin at the root of the files."""

    def _query(self, path: str | None, snapshot: str | None = None) -> dict[str, Any]:
        return {"path": path, "snapshot": snapshot}

    async def read(self, path: str, *, snapshot: str | None = None, **wait: Unpack[Wait]) -> str:
        """Returns the text of a file, which must be UTF-8."""
        return (await self.read_bytes(path, snapshot=snapshot, **wait)).decode()

    async def read_bytes(
        self,
        path: str,
        *,
        offset: int = 0,
        length: int | None = None,
        snapshot: str | None = None,
        **wait: Unpack[Wait],
    ) -> bytes:
        """Returns the bytes of a file, or a part of them."""
        if length == 0:
            return b""
        headers = {}
        if offset or length is not None:
            end = "" if length is None else offset + length - 1
            headers["Range"] = f"bytes={offset}-{end}"
        query = self._query(path, snapshot)
        return (await self._send("GET", "files", query=query, headers=headers, **wait)).content

    async def read_stream(
        self, path: str, *, snapshot: str | None = None, deadline: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yields the bytes of a file in pieces."""
        query = self._query(path, snapshot)
        async with closing(self._pieces("files", query, deadline, None)) as pieces:
            async for piece in pieces:
                yield piece

    async def _pieces(
        self, part: str, query: Mapping[str, Any], deadline: float | None, timeout: float | None
    ) -> AsyncGenerator[bytes, None]:
        request = Request("GET", self._path(part), query=query, deadline=Deadline(deadline), timeout=timeout)
        stream = await self._transport.open(request)
        try:
            while (piece := await stream.next()) is not None:
                yield piece
        finally:
            await stream.close()

    def list(
        self,
        path: str | None = None,
        *,
        recursive: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        snapshot: str | None = None,
        **wait: Unpack[Wait],
    ) -> Pages[models.FileInfo]:
        """Lists the files in a directory; with `recursive`, also those in the directories below it."""
        query = {**self._query(path, snapshot), "limit": limit, "cursor": cursor}
        kind = Tree if recursive else Pages
        return kind(self._transport, self._path("files", "list"), query, models.FilePage.model_validate_json, **wait)

    async def stat(self, path: str, *, snapshot: str | None = None, **wait: Unpack[Wait]) -> models.FileInfo:
        """Returns the kind, size and mode of a file or directory. Follows symbolic links to files."""
        query, end = self._query(path, snapshot), Deadline(wait.get("deadline"))
        try:
            answer = await self._send("HEAD", "files", query=query, **wait)
        except WorkspaceError as error:
            if error.status is None or not 400 <= error.status < 500:
                raise
            return await self._stat_other(path, snapshot, error, end)
        headers = answer.headers
        modified = headers.get("last-modified")
        return models.FileInfo(
            path=path,
            name=path.rstrip("/").rpartition("/")[2],
            kind="file",
            size=int(headers.get("content-length", 0)),
            mode=headers.get("x-elevo-mode", "0644"),
            etag=headers.get("etag"),
            modified_at=parsedate_to_datetime(modified) if modified else None,
        )

    async def _stat_other(
        self, path: str, snapshot: str | None, error: WorkspaceError, end: Deadline
    ) -> models.FileInfo:
        """Returns a path that is not a file. The response to a HEAD request has no body that says why."""
        directory, _, name = path.strip("/").rpartition("/")
        if error.status != 409:
            request = Request("GET", self._path("files"), query=self._query(path, snapshot), deadline=end)
            await (await self._transport.open(request)).close()
        if not name or name == ".":
            return models.FileInfo(path=path, name="", kind="directory", mode="0755")
        above = f"/{directory}" if path.startswith("/") else directory or None
        async for found in self.list(above, snapshot=snapshot, deadline=end.remaining()):
            if found.name == name:
                return found
        raise PathNotFoundError(f"there is no `{path}`", code=2013, name="PATH_NOT_FOUND", status=404)

    async def exists(self, path: str, *, snapshot: str | None = None, **wait: Unpack[Wait]) -> bool:
        """Tells whether a path exists."""
        try:
            await self.stat(path, snapshot=snapshot, **wait)
        except PathNotFoundError:
            return False
        return True

    async def download(
        self,
        path: str | None,
        directory: str | os.PathLike[str],
        *,
        snapshot: str | None = None,
        deadline: float | None = None,
    ) -> None:
        """Downloads the files below a path into a local directory."""
        with new_file() as file:
            archive = self.download_archive(path=path, snapshot=snapshot, deadline=deadline)
            async with closing(archive) as pieces:
                async for piece in pieces:
                    await in_thread(file.write, piece)
            await in_thread(unpack, file, directory)

    async def download_archive(
        self, *, path: str | None = None, snapshot: str | None = None, deadline: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yields a tar of the files below a path, in pieces."""
        query = self._query(path, snapshot)
        async with closing(self._pieces("archive", query, deadline, VERY_LONG)) as pieces:
            async for piece in pieces:
                yield piece


class Tree(Pages["models.FileInfo"]):
    """A list of files, which continues in each directory."""

    async def __aiter__(self) -> AsyncIterator[models.FileInfo]:
        left = self._deadline.remaining()
        files = Pages[models.FileInfo](self._transport, self._path, self._query, self._parse, deadline=left)
        async for item in files:
            yield item
            if item.kind == "directory":
                query = {**self._query, "path": item.path, "cursor": None}
                left = self._deadline.remaining()
                async for inner in Tree(self._transport, self._path, query, self._parse, deadline=left):
                    yield inner


class Files(ReadFiles):
    """The files of a sandbox or workspace.

    A path is relative to the workspace, or absolute. Below `/workspace` and `/home/agent`, files can also be used
    while the sandbox is stopped.
    """

    def _query(self, path: str | None, snapshot: str | None = None) -> dict[str, Any]:
        if snapshot is not None:
            raise ValueError("a workspace has no `snapshot`; use `client.snapshots.get(id)` and its files")
        return {"path": path}

    async def write(
        self,
        path: str,
        data: Data,
        *,
        mode: int | str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        parents: bool | None = None,
        sync: bool | None = None,
        **options: Unpack[Call],
    ) -> models.FileInfo:
        """Creates or replaces a file, in one step when all data has arrived.

        With `if_match`, the file must have this entity tag; with `if_none_match="*"`, it must not exist.
        """
        mode = f"{mode:04o}" if isinstance(mode, int) else mode
        query = {"path": path, "mode": mode, "parents": parents, "sync": sync}
        conditions = {"If-Match": if_match, "If-None-Match": if_none_match}
        headers = {name: value for name, value in conditions.items() if value is not None}
        headers["Content-Type"] = "application/octet-stream"
        content = content_of(data)
        answer = await self._send("PUT", "files", query=query, content=content, headers=headers, **options)
        return models.FileInfo.model_validate_json(answer.content)

    async def mkdir(
        self, path: str, *, mode: int | str | None = None, parents: bool | None = None, **options: Unpack[Call]
    ) -> models.FileInfo:
        """Creates a directory."""
        mode = f"{mode:04o}" if isinstance(mode, int) else mode
        body = body_of(path=path, mode=mode, parents=parents)
        return await self._post(models.FileInfo.model_validate_json, "files", "mkdir", body=body, **options)

    async def move(
        self, source: str, target: str, *, overwrite: bool | None = None, **options: Unpack[Call]
    ) -> models.FileInfo:
        """Moves a file or directory."""
        body = body_of(from_=source, to=target, overwrite=overwrite)
        return await self._post(models.FileInfo.model_validate_json, "files", "move", body=body, **options)

    async def delete(
        self, path: str, *, recursive: bool | None = None, if_match: str | None = None, **options: Unpack[Call]
    ) -> None:
        """Deletes a file; with `recursive`, a directory and all that is in it."""
        headers = {} if if_match is None else {"If-Match": if_match}
        query = {"path": path, "recursive": recursive}
        await self._send("DELETE", "files", query=query, headers=headers, **options)

    async def upload(self, directory: str | os.PathLike[str], path: str | None = None, **options: Unpack[Call]) -> None:
        """Uploads the files below a local directory into a directory."""
        with await in_thread(pack, directory) as file:
            await self.upload_archive(file, path=path, **options)

    async def upload_archive(self, tar: Data, *, path: str | None = None, **options: Unpack[Call]) -> None:
        """Extracts a tar (plain, gzip or zstd) into a directory."""
        headers = {"Content-Type": "application/x-tar"}
        query, content = {"path": path}, content_of(tar)
        await self._send("PUT", "archive", query=query, content=content, headers=headers, timeout=VERY_LONG, **options)

    async def watch(
        self, path: str | None = None, *, deadline: float | None = None
    ) -> AsyncGenerator[models.WatchEvent, None]:
        """Yields the changes below a directory. List the files after each `watching` and `gap`.

        After a lost connection the watch continues, with another `watching`.
        """
        end = Deadline(deadline)

        def request() -> Request:
            return Request("GET", self._path("files", "watch"), query={"path": path}, deadline=end, is_stream=True)

        async with closing(subscribe(self._transport, request)) as events:
            async for event in events:
                if event.data:
                    yield models.WatchEvent.model_validate_json(event.data)
