"""Ports of a sandbox that programs listen on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import models
from .._values import body_of
from .base import Service
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call


class Ports(Service):
    """The ports of one sandbox."""

    def __init__(self, transport: Transport, sandbox: str) -> None:
        super().__init__(transport, "sandboxes", sandbox, "ports")

    def url(self, port: int, path: str = "") -> str:
        """Returns the address of a port. A request to it needs a key, as `Authorization` or `X-API-Key`."""
        return f"{self._transport.where.url}{self._path(port)}/{path.removeprefix('/')}"

    async def link(self, port: int, *, expires_in: int | None = None, **options: Unpack[Call]) -> models.PortLink:
        """Returns an address that needs no key, for a time in seconds."""
        body = body_of(expires_in=expires_in)
        return await self._post(models.PortLink.model_validate_json, port, "link", body=body, **options)
