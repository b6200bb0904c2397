"""Comparison of two versions of files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._lazy import models
from .base import Service
from .transport import VERY_LONG

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Wait


class Compared(Service):
    """An object or service with `diff`."""

    async def _diff(self, query: Mapping[str, Any], stat: bool, **wait: Unpack[Wait]) -> models.Diff | models.DiffStat:
        """Returns the changes between two versions, or their numbers of lines."""
        query = {**query, "format": "stat" if stat else None}
        answer = await self._send("GET", "diff", query=query, timeout=VERY_LONG, **wait)
        kind = models.DiffStat if stat else models.Diff
        return kind.model_validate_json(answer.content)

    async def _patch(self, query: Mapping[str, Any], **wait: Unpack[Wait]) -> str:
        """Returns the changes between two versions as a patch."""
        query = {**query, "format": "patch"}
        answer = await self._send("GET", "diff", query=query, timeout=VERY_LONG, **wait)
        return answer.content.decode("utf-8", "surrogateescape")
