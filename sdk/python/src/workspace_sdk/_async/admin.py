"""Templates, keys, agents, tenants, and the server itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._deadline import Deadline
from .._lazy import models
from .._values import Option, Ref, body_of, ref, ref_or_none
from .base import Service
from .content import Data, content_of
from .pages import Pages
from .transport import VERY_LONG, Request, Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, Wait


class Templates(Service):
    """The images, with their settings, that sandboxes are created from."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "templates")

    async def list(self, **wait: Unpack[Wait]) -> list[models.Template]:
        """Returns all templates."""
        pages = Pages["models.Template"](
            self._transport, self._path(), {}, models.TemplatePage.model_validate_json, **wait
        )
        return [item async for item in pages]

    async def create(
        self,
        *,
        name: str,
        image: str | None = None,
        description: str | None = None,
        tags: Sequence[str] | None = None,
        writable_root: bool | None = None,
        **options: Unpack[Call],
    ) -> models.Template:
        """Creates a template. The image is pulled if the container engine does not have it."""
        body = body_of(name=name, image=image, description=description, tags=tags, writable_root=writable_root)
        return await self._post(models.Template.model_validate_json, body=body, timeout=VERY_LONG, **options)

    async def load(self, name: str, archive: Data, **options: Unpack[Call]) -> models.Template:
        """Creates a template from an image archive, as `docker save` writes it: plain, gzip or zstd."""
        headers = {"Content-Type": "application/x-tar"}
        content = content_of(archive)
        answer = await self._send(
            "PUT", name, "archive", content=content, headers=headers, timeout=VERY_LONG, **options
        )
        return models.Template.model_validate_json(answer.content)

    async def delete(self, name: str, **options: Unpack[Call]) -> None:
        """Deletes a template; the image stays."""
        await self._send("DELETE", name, **options)


class Keys(Service):
    """The keys of the tenant."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "keys")

    async def create(
        self,
        *,
        name: str,
        agent: Ref | None = None,
        scopes: Sequence[str] | None = None,
        expires_in_seconds: int | None = None,
        limits: models.KeyLimits | Option = None,
        **options: Unpack[Call],
    ) -> models.NewKey:
        """Creates a key. Only this response has its `secret`."""
        body = body_of(
            name=name,
            agent=ref_or_none(agent),
            scopes=scopes,
            expires_in_seconds=expires_in_seconds,
            limits=limits,
        )
        return await self._post(models.NewKey.model_validate_json, body=body, **options)

    def list(self, *, limit: int | None = None, cursor: str | None = None, **wait: Unpack[Wait]) -> Pages[models.Key]:
        """Lists the keys."""
        query = {"limit": limit, "cursor": cursor}
        return Pages(self._transport, self._path(), query, models.KeyPage.model_validate_json, **wait)

    async def delete(self, key: Ref, **options: Unpack[Call]) -> None:
        """Revokes a key."""
        await self._send("DELETE", ref(key), **options)


class Agents(Service):
    """The agents of the tenant."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "agents")

    async def create(self, *, name: str, **options: Unpack[Call]) -> models.Agent:
        """Creates an agent."""
        return await self._post(models.Agent.model_validate_json, body={"name": name}, **options)

    def list(self, *, limit: int | None = None, cursor: str | None = None, **wait: Unpack[Wait]) -> Pages[models.Agent]:
        """Lists the agents."""
        query = {"limit": limit, "cursor": cursor}
        return Pages(self._transport, self._path(), query, models.AgentPage.model_validate_json, **wait)

    async def delete(self, agent: Ref, **options: Unpack[Call]) -> None:
        """Deletes an agent."""
        await self._send("DELETE", ref(agent), **options)


class Tenants(Service):
    """The tenants of the server."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "tenants")

    async def create(
        self, *, name: str, limits: models.TenantLimits | Option = None, **options: Unpack[Call]
    ) -> models.NewTenant:
        """Creates a tenant. Only this response has the `secret` of its first key."""
        return await self._post(models.NewTenant.model_validate_json, body=body_of(name=name, limits=limits), **options)

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, **wait: Unpack[Wait]
    ) -> Pages[models.Tenant]:
        """Lists the tenants."""
        query = {"limit": limit, "cursor": cursor}
        return Pages(self._transport, self._path(), query, models.TenantPage.model_validate_json, **wait)

    async def update(
        self,
        tenant: Ref,
        *,
        name: str | None = None,
        limits: models.TenantLimits | Option = None,
        suspended: bool | None = None,
        **options: Unpack[Call],
    ) -> models.Tenant:
        """Changes the name, the limits, or whether the tenant is suspended."""
        body = body_of(name=name, limits=limits, suspended=suspended)
        return models.Tenant.model_validate_json((await self._send("PATCH", ref(tenant), body=body, **options)).content)

    async def delete(self, tenant: Ref, **options: Unpack[Call]) -> None:
        """Erases a tenant with all its data. Returns before the end of the erasure."""
        await self._send("DELETE", ref(tenant), **options)


class System(Service):
    """The server itself."""

    async def stats(self, **wait: Unpack[Wait]) -> models.SystemStats:
        """Returns the use of resources."""
        return await self._get(models.SystemStats.model_validate_json, "stats", **wait)

    async def gc(
        self, *, dry_run: bool | None = None, full: bool | None = None, **options: Unpack[Call]
    ) -> models.GcResult:
        """Collects garbage, and returns when that is complete."""
        body = body_of(dry_run=dry_run, full=full)
        return await self._post(models.GcResult.model_validate_json, "gc", body=body, timeout=VERY_LONG, **options)

    async def gc_status(self, **wait: Unpack[Wait]) -> models.GcStatus:
        """Returns the progress of a garbage collection, and the result of the last."""
        return await self._get(models.GcStatus.model_validate_json, "gc", **wait)

    async def health(self, **wait: Unpack[Wait]) -> models.Health:
        """Returns the version of a server that runs. Needs no valid key."""
        answer = await self._transport.send(Request("GET", "/health", deadline=Deadline(wait.get("deadline"))))
        return models.Health.model_validate_json(answer.content)

    async def ready(self, **wait: Unpack[Wait]) -> models.Ready:
        """Returns whether the server can carry out requests, and why not. Needs no valid key."""
        end = Deadline(wait.get("deadline"))
        answer = await self._transport.send(Request("GET", "/ready", accept=(503,), deadline=end))
        return models.Ready.model_validate_json(answer.content)
