"""Reviews: held changes that wait for a decision."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._handle import ReviewFields
from .._lazy import models
from .._types import Batch
from .._values import Ref, body_of, ref, ref_or_none
from .base import Service
from .pages import Pages
from .transport import VERY_LONG, Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Call, Wait


class Review(ReviewFields, Service):
    """A held change, usually of a conflict."""

    def __init__(self, transport: Transport, data: models.Review) -> None:
        self._data = data
        Service.__init__(self, transport, "reviews", data.id)

    async def resolve(
        self,
        take: str,
        *,
        message: str | None = None,
        content: str | bytes | None = None,
        **options: Unpack[Call],
    ) -> Review:
        """Decides: `take` is `project`, `workspace`, `suggested`, `edited` (with `content`) or `nothing`."""
        body = body_of(take=take, message=message, **_content(content))
        parse = models.Review.model_validate_json
        self._data = await self._post(parse, "resolve", body=body, timeout=VERY_LONG, **options)
        return self

    async def content(self, side: str, **wait: Unpack[Wait]) -> bytes:
        """Returns the file as one side has it: `base`, `project`, `workspace` or `suggested`."""
        return (await self._send("GET", "content", query={"side": side}, **wait)).content


class Reviews(Service):
    """The reviews that the key may see."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "reviews")

    def list(
        self,
        *,
        project: Ref | None = None,
        workspace: Ref | None = None,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        **wait: Unpack[Wait],
    ) -> Pages[Review]:
        """Lists reviews; `state` is `open`, `resolved`, `rejected`, `superseded` or `expired`."""
        query = {
            "project": ref_or_none(project),
            "workspace": ref_or_none(workspace),
            "state": state,
            "limit": limit,
            "cursor": cursor,
        }
        parse = models.ReviewPage.model_validate_json
        return Pages(self._transport, self._path(), query, parse, lambda item: Review(self._transport, item), **wait)

    async def get(self, review: Ref, **wait: Unpack[Wait]) -> Review:
        """Returns a review."""
        return Review(self._transport, await self._get(models.Review.model_validate_json, ref(review), **wait))

    async def resolve(self, items: Sequence[Mapping[str, Any]], **options: Unpack[Call]) -> Batch[Review]:
        """Decides several reviews: each item has `id`, `take`, and what `Review.resolve` accepts."""
        body = {"items": [body_of(**{**item, **_content(item.get("content"))}) for item in items]}
        parse = models.ReviewsResolved.model_validate_json
        resolved = await self._post(parse, "resolve", body=body, timeout=VERY_LONG, **options)
        return Batch([Review(self._transport, item) for item in resolved.succeeded], resolved.failed)


def _content(content: str | bytes | None) -> dict[str, Any]:
    """Returns edited content as the fields of the API."""
    if isinstance(content, bytes):
        return {"content": None, "base64": base64.b64encode(content).decode()}
    return {"content": content}
