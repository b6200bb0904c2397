"""Responses that `with_raw_response` records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ._errors import WorkspaceError


@dataclass
class SeenResponse:
    """A response of the server, as `with_raw_response` records it."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]

    @property
    def request_id(self) -> str | None:
        """Id of the request, by which the log of the server has more about it."""
        return self.headers.get("x-request-id")


class SeenResponses(list[SeenResponse]):
    """The responses to the calls in a block, in order. `status`, `headers` and `request_id` are of the last."""

    def _last(self) -> SeenResponse:
        if not self:
            raise WorkspaceError("no response has arrived in this block", remediation="Call the client first.")
        return self[-1]

    @property
    def status(self) -> int:
        """Status of the last response."""
        return self._last().status

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the last response."""
        return self._last().headers

    @property
    def request_id(self) -> str | None:
        """Id of the last request."""
        return self._last().request_id
