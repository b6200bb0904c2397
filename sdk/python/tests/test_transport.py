"""Requests and responses without a server: the handlers of these tests respond in its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

import workspace_sdk
from workspace_sdk import sync as workspace_sdk_sync
from workspace_sdk.errors import ConnectionLostError, InvalidRequestError, WorkspaceError

Handler = Callable[[httpx.Request], httpx.Response]

BUSY = {"error": {"code": 8001, "name": "OVERLOADED", "message": "busy", "retry": "later"}}
FILE = {"path": "a", "name": "a", "kind": "file", "mode": "0644"}
SANDBOX = {
    "id": "sbx-1",
    "name": "one",
    "state": "running",
    "template": "base",
    "workspace": "ws-1",
    "createdAt": "2026-01-01T00:00:00Z",
    "expiresAt": "2026-01-02T00:00:00Z",
    "envs": {},
    "metadata": {},
    "network": "none",
    "onExpiry": "delete",
    "resources": {},
    "runtime": "runc",
}


def client_of(handler: Handler, **options: Any) -> workspace_sdk.WorkspaceClient:
    transport = httpx.MockTransport(handler)
    return workspace_sdk.WorkspaceClient("http://server", "key", retry_delay=0, transport=transport, **options)


def sync_client_of(handler: Handler, **options: Any) -> workspace_sdk_sync.WorkspaceClient:
    transport = httpx.MockTransport(handler)
    return workspace_sdk_sync.WorkspaceClient("http://server", "key", retry_delay=0, transport=transport, **options)


def files_of(client: Any) -> Any:
    from workspace_sdk._sync.files import Files

    return Files(client._transport, "sandboxes", "sbx-1")


def busy_once(seen: list[bytes]) -> Handler:
    """Responds to the first request that the server is busy."""

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.read())
        return httpx.Response(503, json=BUSY) if len(seen) == 1 else httpx.Response(200, json=FILE)

    return handler


def test_a_body_that_can_be_sent_once_is_not_sent_again() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"data"

    seen: list[bytes] = []
    with sync_client_of(busy_once(seen)) as client, pytest.raises(WorkspaceError, match="busy"):
        files_of(client).write("a", pieces())
    assert seen == [b"data"]


def test_a_body_of_bytes_is_sent_again() -> None:
    seen: list[bytes] = []
    with sync_client_of(busy_once(seen)) as client:
        files_of(client).write("a", b"data")
    assert seen == [b"data", b"data"]


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_change_the_path_is_rejected(name: str) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    with sync_client_of(handler) as client, pytest.raises(InvalidRequestError, match="not the id or name"):
        client.sandbox.delete(name)


def test_a_redirect_is_an_error_that_names_its_target() -> None:
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url)
        return httpx.Response(308, headers={"location": "https://server/api/v1/keys/k"})

    with sync_client_of(handler) as client, pytest.raises(WorkspaceError, match="https://server/api/v1/keys/k"):
        client.keys.delete("k")
    assert len(seen) == 1


def test_headers_that_cannot_be_sent_are_an_error_of_the_package() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    with sync_client_of(handler) as client, pytest.raises(InvalidRequestError, match="cannot be sent"):
        client.keys.delete("k", idempotency_key="ключ")


async def test_a_call_after_the_end_of_the_client_says_so() -> None:
    client = client_of(busy_once([]))
    await client.close()
    await client.close()
    with pytest.raises(WorkspaceError, match="the client is closed"):
        await client.info()


class Broken(httpx.AsyncByteStream):
    """A body whose connection is lost."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{"
        raise httpx.ReadTimeout("no data")


async def test_a_body_that_stalls_is_a_lost_response() -> None:
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"]["read"])
        return httpx.Response(200, stream=Broken())

    async with client_of(handler, retries=1) as client:
        with pytest.raises(ConnectionLostError):
            await client.info()
    assert seen == [30.0, 30.0]


async def test_a_task_that_is_cancelled_while_its_sandbox_is_deleted_deletes_it_all_the_same() -> None:
    arrived, seen = asyncio.Event(), []

    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "POST":
                return httpx.Response(201, json=SANDBOX)
            seen.append(request.method)
            if len(seen) == 1:
                arrived.set()
                await asyncio.Event().wait()
            return httpx.Response(204)

    async def use() -> None:
        client = workspace_sdk.WorkspaceClient("http://server", "key", transport=Slow())
        async with client, await client.sandbox.create(template="base"):
            pass

    task = asyncio.ensure_future(use())
    await asyncio.wait({task, asyncio.ensure_future(arrived.wait())}, return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["DELETE", "DELETE"]
