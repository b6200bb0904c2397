"""Lists that arrive in pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

from .._deadline import Deadline
from .._types import Page
from ._runtime import OnePage
from .transport import Request, Transport

T = TypeVar("T")


class Pages(OnePage[T]):
    """A list: iterate over it for all items, or call `page` for one page."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        query: Mapping[str, Any],
        parse: Callable[[bytes], Any],
        item: Callable[[Any], T] | None = None,
        *,
        deadline: float | None = None,
    ) -> None:
        self._transport = transport
        self._path = path
        self._query = dict(query)
        self._parse = parse
        self._item = item
        self._deadline = Deadline(deadline)

    async def page(self) -> Page[T]:
        """Returns one page: the one that `cursor` of the list names, or the first."""
        return await self._fetch(self._query)

    async def _fetch(self, query: Mapping[str, Any]) -> Page[T]:
        request = Request("GET", self._path, query=query, deadline=self._deadline)
        answer = await self._transport.send(request)
        page = self._parse(answer.content)
        items = page.items if self._item is None else [self._item(item) for item in page.items]
        more = {name: getattr(page, name, None) for name in ("total", "page", "gap")}
        return Page(items, page.next, **more)

    async def __aiter__(self) -> AsyncIterator[T]:
        query = self._query
        while True:
            page = await self._fetch(query)
            for item in page.items:
                yield item
            # A list of events always has a next page; at its end, that is the page itself.
            if page.next is None or page.next == str(query.get("cursor")):
                return
            query = {**query, "cursor": page.next}
            query.pop("page", None)
