"""The client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from .._lazy import models
from .._retry import RetryPolicy
from .._seen import SeenResponses
from .._where import RECORDED, Where, find
from ._runtime import HttpTransport, gather
from .base import Service
from .transport import Transport, seen_responses

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import Wait
    from .._types import CreateSandboxParams
    from .admin import Agents, Keys, System, Templates, Tenants
    from .events import Events
    from .projects import Projects
    from .reviews import Reviews
    from .sandbox import Sandbox, Sandboxes
    from .snapshots import Snapshots
    from .webhooks import Webhooks
    from .workspaces import Workspaces

T = TypeVar("T")
R = TypeVar("R")


class WorkspaceClient:
    """A client of one server, with one pool of connections for all its objects.

    Without arguments, the server and the key are those of `ELEVO_SERVER` and `ELEVO_API_KEY`, else of
    `WORKSPACE_API_URL` and `WORKSPACE_API_KEY`, else those of the server that `elevo up` started for this user.
    `None` is the same as no argument; an empty key is an error.
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

        def search() -> Where:
            return RECORDED if getattr(transport, "is_recorded", False) else find(api_url, api_key)

        self._transport = Transport(search, timeout, policy, transport)
        self._root = Service(self._transport)

    # Each service is imported when it is first used: most programs use few of them.

    @cached_property
    def sandbox(self) -> Sandboxes:
        """Sandboxes."""
        from .sandbox import Sandboxes

        return Sandboxes(self._transport)

    @cached_property
    def templates(self) -> Templates:
        """Templates."""
        from .admin import Templates

        return Templates(self._transport)

    @cached_property
    def projects(self) -> Projects:
        """Projects."""
        from .projects import Projects

        return Projects(self._transport)

    @cached_property
    def workspaces(self) -> Workspaces:
        """Workspaces."""
        from .workspaces import Workspaces

        return Workspaces(self._transport)

    @cached_property
    def reviews(self) -> Reviews:
        """Reviews."""
        from .reviews import Reviews

        return Reviews(self._transport)

    @cached_property
    def snapshots(self) -> Snapshots:
        """Snapshots."""
        from .snapshots import Snapshots

        return Snapshots(self._transport)

    @cached_property
    def events(self) -> Events:
        """Events."""
        from .events import Events

        return Events(self._transport)

    @cached_property
    def webhooks(self) -> Webhooks:
        """Webhooks."""
        from .webhooks import Webhooks

        return Webhooks(self._transport)

    @cached_property
    def keys(self) -> Keys:
        """Keys."""
        from .admin import Keys

        return Keys(self._transport)

    @cached_property
    def agents(self) -> Agents:
        """Agents."""
        from .admin import Agents

        return Agents(self._transport)

    @cached_property
    def tenants(self) -> Tenants:
        """Tenants."""
        from .admin import Tenants

        return Tenants(self._transport)

    @cached_property
    def system(self) -> System:
        """The server itself."""
        from .admin import System

        return System(self._transport)

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
        """Ends all streams and terminals, kills the commands of `run` and `run_stream`, and closes all connections."""
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
