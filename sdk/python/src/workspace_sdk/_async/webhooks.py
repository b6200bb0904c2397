"""Webhooks: addresses that receive events by HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._lazy import models
from .._values import Ref, body_of, ref
from .base import Service
from .pages import Pages
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, Wait


class Webhooks(Service):
    """The webhooks of the tenant."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "webhooks")

    async def create(
        self, *, url: str, kinds: Sequence[str] | None = None, secret: str | None = None, **options: Unpack[Call]
    ) -> models.Webhook:
        """Creates a webhook. With a secret, its deliveries are signed; see `verify_webhook`."""
        body = body_of(url=url, kinds=kinds, secret=secret)
        return await self._post(models.Webhook.model_validate_json, body=body, **options)

    async def get(self, webhook: Ref, **wait: Unpack[Wait]) -> models.Webhook:
        """Returns a webhook."""
        return await self._get(models.Webhook.model_validate_json, ref(webhook), **wait)

    def list(
        self, *, limit: int | None = None, cursor: str | None = None, **wait: Unpack[Wait]
    ) -> Pages[models.Webhook]:
        """Lists the webhooks."""
        query = {"limit": limit, "cursor": cursor}
        return Pages(self._transport, self._path(), query, models.WebhookPage.model_validate_json, **wait)

    async def update(
        self, webhook: Ref, *, url: str | None = None, kinds: Sequence[str] | None = None, **options: Unpack[Call]
    ) -> models.Webhook:
        """Changes the address or the kinds of events."""
        answer = await self._send("PATCH", ref(webhook), body=body_of(url=url, kinds=kinds), **options)
        return models.Webhook.model_validate_json(answer.content)

    async def delete(self, webhook: Ref, **options: Unpack[Call]) -> None:
        """Deletes a webhook."""
        await self._send("DELETE", ref(webhook), **options)

    async def rotate(
        self,
        webhook: Ref,
        *,
        secret: str | None = None,
        keep_seconds: int | None = None,
        **options: Unpack[Call],
    ) -> models.RotatedWebhook:
        """Replaces the secret. For a time, deliveries have signatures of both."""
        body = body_of(secret=secret, keep_seconds=keep_seconds)
        return await self._post(models.RotatedWebhook.model_validate_json, ref(webhook), "rotate", body=body, **options)

    def deliveries(
        self,
        webhook: Ref,
        *,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **wait: Unpack[Wait],
    ) -> Pages[models.Delivery]:
        """Lists deliveries; `state` is `pending`, `delivered` or `failed`."""
        query, target = {"state": state, "limit": limit, "cursor": cursor}, self._path(ref(webhook), "deliveries")
        return Pages(self._transport, target, query, models.DeliveryPage.model_validate_json, **wait)

    async def replay(self, webhook: Ref, event: int, **options: Unpack[Call]) -> None:
        """Delivers an event again."""
        await self._send("POST", ref(webhook), "deliveries", event, "replay", **options)
