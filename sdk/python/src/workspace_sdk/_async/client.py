"""The client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from .._lazy import models
from .._retry import RetryPolicy
from .._types import CreateSandboxParams, SeenResponses
from .._where import find
from ._runtime import HttpTransport, gather
from .admin import Agents, Keys, System, Templates, Tenants
from .base import Service
from .events import Events
from .projects import Projects
from .reviews import Reviews
from .sandbox import Sandbox, Sandboxes
from .snapshots import Snapshots
from .transport import Transport, seen_responses
from .webhooks import Webhooks
from .workspaces import Workspaces

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Wait

T = TypeVar("T")
R = TypeVar("R")


class WorkspaceClient:
    """A client of one server, with one pool of connections for all its objects.

    Without arguments, the server and the key are those of `ELEVO_SERVER` and `ELEVO_API_KEY`, else of
    `WORKSPACE_API_URL` and `WORKSPACE_API_KEY`, else those of the server that `elevo up` started for this user.
    """

    def __init__(
        self,
        api_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        retry_delay: float = 1.0,
        retry_backoff: float = 2.0,
        *,
        transport: HttpTransport | None = None,
    ) -> None:
        """Creates a client; the first request opens a connection.

        `timeout` is the number of seconds until a response begins; requests that start containers or work on all
        files have more time. `transport` replaces the network, as `workspace_sdk.testing` does.
        """
        policy = RetryPolicy(retries, retry_delay, retry_backoff)
        self._transport = Transport(find(api_url, api_key), timeout, policy, transport)
        self._root = Service(self._transport)
        self.sandbox = Sandboxes(self._transport)
        """Sandboxes."""
        self.templates = Templates(self._transport)
        """Templates."""
        self.projects = Projects(self._transport)
        """Projects."""
        self.workspaces = Workspaces(self._transport)
        """Workspaces."""
        self.reviews = Reviews(self._transport)
        """Reviews."""
        self.snapshots = Snapshots(self._transport)
        """Snapshots."""
        self.events = Events(self._transport)
        """Events."""
        self.webhooks = Webhooks(self._transport)
        """Webhooks."""
        self.keys = Keys(self._transport)
        """Keys."""
        self.agents = Agents(self._transport)
        """Agents."""
        self.tenants = Tenants(self._transport)
        """Tenants."""
        self.system = System(self._transport)
        """The server itself."""

    def __repr__(self) -> str:
        return f"WorkspaceClient(api_url={self._transport.where.url!r})"

    async def info(self, **wait: Unpack[Wait]) -> models.Info:
        """Returns what the server offers: version, features and limits."""
        return await self._root._get(models.Info.model_validate_json, "info", **wait)

    async def me(self, **wait: Unpack[Wait]) -> models.Me:
        """Returns what the key may do."""
        return await self._root._get(models.Me.model_validate_json, "me", **wait)

    async def gather(
        self, function: Callable[[T], Awaitable[R]], items: Iterable[T], *, limit: int | None = None
    ) -> list[R]:
        """Calls the function for all items at the same time, and returns the results in their order.

        `limit` is the number of calls at a time. The first error is raised.
        """
        return await gather(function, items, limit)

    @contextmanager
    def with_raw_response(self) -> Iterator[SeenResponses]:
        """Records status, headers and request id of the responses to the calls in the block."""
        seen = SeenResponses()
        token = seen_responses.set(seen)
        try:
            yield seen
        finally:
            seen_responses.reset(token)

    async def close(self) -> None:
        """Closes all connections."""
        await self._transport.close()

    async def __aenter__(self) -> WorkspaceClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def with_sandbox(
    client: WorkspaceClient, params: CreateSandboxParams, callback: Callable[[Sandbox], Awaitable[R]]
) -> R:
    """Creates a sandbox, calls the function with it, deletes it, and returns the result of the function."""
    async with await client.sandbox.create(params) as sandbox:
        return await callback(sandbox)
