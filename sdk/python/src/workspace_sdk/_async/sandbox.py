"""Sandboxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .._errors import NotFoundError
from .._handle import SandboxFields
from .._lazy import models
from .._types import Batch, CreateSandboxParams
from .._values import Ref, body_of, ref
from ._runtime import finish
from .base import Service
from .files import Files
from .pages import Pages
from .ports import Ports
from .process import Process
from .pty import Pty
from .transport import LONG, Transport
from .versions import Versioned

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, SandboxOptions, Wait

DELETE_TIME = 60.0
"""Seconds for the deletion of a sandbox after an error in its block."""


class Sandbox(SandboxFields, Versioned):
    """A container with a workspace in it. As a context manager, deletes itself at the end of the block."""

    def __init__(self, transport: Transport, data: models.Sandbox) -> None:
        self._data = data
        Versioned.__init__(self, transport, "sandboxes", data.id, data.workspace)
        self.process = Process(transport, data.id)
        """Commands."""
        self.pty = Pty(transport, data.id)
        """Terminals."""
        self.files = Files(transport, "sandboxes", data.id)
        """Files."""
        self.ports = Ports(transport, data.id)
        """Ports."""

    def _take(self, content: bytes) -> Sandbox:
        self._data = models.Sandbox.model_validate_json(content)
        return self

    async def reload(self, **wait: Unpack[Wait]) -> Sandbox:
        """Reads the fields again, and returns the sandbox."""
        return self._take((await self._send("GET", **wait)).content)

    async def delete(self, *, keep_workspace: bool | None = None, **options: Unpack[Call]) -> None:
        """Deletes the sandbox, and its workspace unless `keep_workspace` is set."""
        await self._send("DELETE", query={"keep_workspace": keep_workspace}, timeout=LONG, **options)

    async def extend(self, seconds: int, **options: Unpack[Call]) -> Sandbox:
        """Moves the expiry, and returns the sandbox."""
        return self._take((await self._send("POST", "extend", body={"seconds": seconds}, **options)).content)

    async def update(
        self,
        *,
        name: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
        expires_at: datetime | str | None = None,
        **options: Unpack[Call],
    ) -> Sandbox:
        """Changes the name, the metadata or the expiry, and returns the sandbox. A value `None` removes a pair."""
        body = body_of(name=name, metadata=metadata, expires_at=expires_at)
        return self._take((await self._send("PATCH", body=body, **options)).content)

    async def start(self, **options: Unpack[Call]) -> Sandbox:
        """Starts the container of a stopped sandbox, and returns the sandbox."""
        return self._take((await self._send("POST", "start", timeout=LONG, **options)).content)

    async def stop(self, **options: Unpack[Call]) -> Sandbox:
        """Stops the container; the files stay. Returns the sandbox."""
        return self._take((await self._send("POST", "stop", timeout=LONG, **options)).content)

    async def stats(self, **wait: Unpack[Wait]) -> models.SandboxStats:
        """Returns the use of resources."""
        return await self._get(models.SandboxStats.model_validate_json, "stats", **wait)

    async def logs(
        self,
        *,
        tail: int | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        **wait: Unpack[Wait],
    ) -> models.Logs:
        """Returns the log of the container."""
        query = {"tail": tail, "since": since, "until": until}
        return await self._get(models.Logs.model_validate_json, "logs", query=query, **wait)

    async def fork(
        self,
        *,
        count: int | None = None,
        name: str | None = None,
        envs: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        timeout_seconds: int | None = None,
        **options: Unpack[Call],
    ) -> Batch[Sandbox]:
        """Creates sandboxes with the current files of this one, but not its processes."""
        body = body_of(count=count, name=name, envs=envs, metadata=metadata, timeout_seconds=timeout_seconds)
        forked = await self._post(models.Forked.model_validate_json, "fork", body=body, timeout=LONG, **options)
        return Batch([Sandbox(self._transport, item) for item in forked.succeeded], forked.failed)

    async def restore(self, snapshot: Ref, **options: Unpack[Call]) -> Sandbox:
        """Replaces the files by those of a snapshot, and returns the sandbox."""
        return self._take(await self._restore(snapshot, **options))

    async def refresh_workspace(self, *, dry_run: bool | None = None, **options: Unpack[Call]) -> models.Refreshed:
        """Brings the newer head of the project into the workspace."""
        return await self._refresh(dry_run, **options)

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            # The error on its way stays the one that is raised, and a cancelled task deletes all the same.
            await finish(self._delete_quietly, DELETE_TIME)
            return
        try:
            await self._delete_quietly()
        except Exception:
            raise
        except BaseException:
            # The end of the task has interrupted the deletion.
            await finish(self._delete_quietly, DELETE_TIME)
            raise

    async def _delete_quietly(self) -> None:
        """Deletes the sandbox, which may have been deleted meanwhile."""
        try:
            await self.delete()
        except NotFoundError:
            return


class Sandboxes(Service):
    """The sandboxes that the key may see."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "sandboxes")

    async def create(self, params: CreateSandboxParams | None = None, **options: Unpack[SandboxOptions]) -> Sandbox:
        """Creates a sandbox: with `CreateSandboxParams`, or with its fields as arguments.

        Returns when commands can run.
        """
        fields: dict[str, Any] = {**options}
        call: Call = {
            "deadline": fields.pop("deadline", None),
            "idempotency_key": fields.pop("idempotency_key", None),
        }
        if params is not None and fields:
            raise TypeError(f"the fields {', '.join(fields)} belong into the parameters")
        body = (params or CreateSandboxParams(**fields)).body()
        parse = models.Sandbox.model_validate_json
        return Sandbox(self._transport, await self._post(parse, body=body, timeout=LONG, **call))

    async def get(self, sandbox: Ref, **wait: Unpack[Wait]) -> Sandbox:
        """Returns a sandbox, by its id or name."""
        return Sandbox(self._transport, await self._get(models.Sandbox.model_validate_json, ref(sandbox), **wait))

    def list(
        self,
        *,
        state: str | None = None,
        name_prefix: str | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        page: int | None = None,
        **wait: Unpack[Wait],
    ) -> Pages[Sandbox]:
        """Lists sandboxes, newest first."""
        pairs = None if metadata is None else [f"{name}:{value}" for name, value in metadata.items()]
        query = {
            "state": state,
            "name_prefix": name_prefix,
            "metadata": pairs,
            "limit": limit,
            "cursor": cursor,
            "page": page,
        }
        parse = models.SandboxPage.model_validate_json
        return Pages(self._transport, self._path(), query, parse, lambda item: Sandbox(self._transport, item), **wait)

    async def delete(self, sandbox: Ref, *, keep_workspace: bool | None = None, **options: Unpack[Call]) -> None:
        """Deletes a sandbox, and its workspace unless `keep_workspace` is set."""
        query = {"keep_workspace": keep_workspace}
        await self._send("DELETE", ref(sandbox), query=query, timeout=LONG, **options)

    async def batch_delete(
        self, sandboxes: Sequence[Ref], *, keep_workspace: bool | None = None, **options: Unpack[Call]
    ) -> Batch[str]:
        """Deletes sandboxes."""
        body = body_of(ids=[ref(item) for item in sandboxes], keep_workspace=keep_workspace)
        parse = models.BatchDeleted.model_validate_json
        deleted = await self._post(parse, "batch-delete", body=body, timeout=LONG, **options)
        return Batch(deleted.succeeded, deleted.failed)

    async def logs(
        self,
        sandbox: Ref,
        *,
        tail: int | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        **wait: Unpack[Wait],
    ) -> models.Logs:
        """Returns the log of the container of a sandbox."""
        query = {"tail": tail, "since": since, "until": until}
        return await self._get(models.Logs.model_validate_json, ref(sandbox), "logs", query=query, **wait)

    async def stats(self, sandbox: Ref, **wait: Unpack[Wait]) -> models.SandboxStats:
        """Returns the use of resources by a sandbox."""
        return await self._get(models.SandboxStats.model_validate_json, ref(sandbox), "stats", **wait)

    async def extend(self, sandbox: Ref, seconds: int, **options: Unpack[Call]) -> Sandbox:
        """Moves the expiry of a sandbox."""
        return await self._changed("POST", ref(sandbox), "extend", body={"seconds": seconds}, **options)

    async def update(
        self,
        sandbox: Ref,
        *,
        name: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
        expires_at: datetime | str | None = None,
        **options: Unpack[Call],
    ) -> Sandbox:
        """Changes the name, the metadata or the expiry of a sandbox."""
        body = body_of(name=name, metadata=metadata, expires_at=expires_at)
        return await self._changed("PATCH", ref(sandbox), body=body, **options)

    async def start(self, sandbox: Ref, **options: Unpack[Call]) -> Sandbox:
        """Starts the container of a stopped sandbox."""
        return await self._changed("POST", ref(sandbox), "start", **options)

    async def stop(self, sandbox: Ref, **options: Unpack[Call]) -> Sandbox:
        """Stops the container of a sandbox; the files stay."""
        return await self._changed("POST", ref(sandbox), "stop", **options)

    async def _changed(self, method: str, *parts: str, body: Any = None, **options: Unpack[Call]) -> Sandbox:
        answer = await self._send(method, *parts, body=body, timeout=LONG, **options)
        return Sandbox(self._transport, models.Sandbox.model_validate_json(answer.content))
