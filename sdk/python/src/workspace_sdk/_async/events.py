"""Events of the server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from .._deadline import Deadline
from .._lazy import models
from .._types import EventGap
from .._values import Ref, ref_or_none
from ._runtime import closing
from .base import Service
from .pages import Pages
from .subscription import subscribe
from .transport import Request, Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Wait


class Events(Service):
    """The events that the key may see."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, "events")

    def list(
        self,
        *,
        kinds: Sequence[str] | None = None,
        sandbox: Ref | None = None,
        project: Ref | None = None,
        cursor: str | int | None = None,
        limit: int | None = None,
        **wait: Unpack[Wait],
    ) -> Pages[models.Event]:
        """Lists past events, oldest first, after a cursor: `next` of a page, or the id of an event."""
        query = {**_query(kinds, sandbox, project), "cursor": cursor, "limit": limit}
        return Pages(self._transport, self._path(), query, models.EventPage.model_validate_json, **wait)

    async def stream(
        self,
        *,
        kinds: Sequence[str] | None = None,
        sandbox: Ref | None = None,
        project: Ref | None = None,
        cursor: str | int | None = None,
        deadline: float | None = None,
    ) -> AsyncGenerator[models.Event | EventGap, None]:
        """Yields events as they happen: those after the cursor, or only new ones.

        After a lost connection the stream continues after the last event. An `EventGap` stands for events that the
        server no longer has.
        """
        query, end = _query(kinds, sandbox, project), Deadline(deadline)
        last = cursor

        def request() -> Request:
            headers = {"Accept": "text/event-stream"}
            continued = {**query, "cursor": last}
            return Request("GET", self._path(), query=continued, headers=headers, deadline=end, is_stream=True)

        async with closing(subscribe(self._transport, request)) as events:
            async for event in events:
                last = event.id if event.id is not None else last
                if not event.data:
                    continue
                if event.name == "gap":
                    yield EventGap(models.EventGap.model_validate_json(event.data).oldest)
                else:
                    yield models.Event.model_validate_json(event.data)


def _query(kinds: Sequence[str] | None, sandbox: Ref | None, project: Ref | None) -> dict[str, Any]:
    joined = None if kinds is None else ",".join(kinds)
    return {"kinds": joined, "sandbox": ref_or_none(sandbox), "project": ref_or_none(project)}
