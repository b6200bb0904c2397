"""Requests and responses without a server: the handlers of these tests respond in its place."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

import workspace_sdk
from workspace_sdk import sync as workspace_sdk_sync
from workspace_sdk.errors import AuthError, ConnectionLostError, InvalidRequestError, WorkspaceError

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


def test_a_list_continues_after_an_empty_page() -> None:
    pages: dict[str, Any] = {"": {"items": [], "next": "b"}, "b": {"items": [FILE], "next": "c"}, "c": {"items": []}}

    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"next": None, **pages[request.url.params.get("cursor", "")]})

    with sync_client_of(handler) as client:
        assert [file.name for file in files_of(client).list()] == ["a"]


def test_a_list_of_events_ends_where_its_next_page_is_itself() -> None:
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.params.get("cursor"))
        return httpx.Response(200, json={"items": [], "next": "7"})

    with sync_client_of(handler) as client:
        assert list(client.events.list()) == []
        assert list(client.events.list(cursor=7)) == []
    assert seen == [None, "7", "7"]


async def test_a_stream_of_events_continues_after_the_place_where_it_began() -> None:
    seen = []
    event = {"id": 43, "kind": "new", "timestamp": "2026-01-01T00:00:00Z", "data": {}}

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.params.get("cursor"))
        text = ": begun\nid: 42\n\n" if len(seen) == 1 else f"id: 43\ndata: {json.dumps(event)}\n\n"
        return httpx.Response(200, text=text)

    async with client_of(handler) as client:
        async for found in client.events.stream():
            assert getattr(found, "id", None) == 43
            break
    assert seen == [None, "42"]


def test_a_response_of_another_form_is_an_error_of_the_package() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>")

    with sync_client_of(handler) as client, pytest.raises(WorkspaceError, match="not a `Info` of an Elevo server"):
        client.info()


def test_the_error_of_a_path_is_that_of_the_server() -> None:
    refused = {"error": {"code": 1001, "name": "UNAUTHORIZED", "message": "the key is not valid", "retry": "never"}}

    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(401) if request.method == "HEAD" else httpx.Response(401, json=refused)

    with sync_client_of(handler) as client, pytest.raises(AuthError, match="the key is not valid"):
        files_of(client).stat("a")


def test_an_error_in_gather_ends_pauses_and_inner_calls() -> None:
    paused = threading.Barrier(3)

    def handler(request: httpx.Request) -> httpx.Response:
        paused.wait()
        return httpx.Response(503, json=BUSY, headers={"retry-after": "60"})

    with sync_client_of(handler) as client:

        def inner(number: int) -> None:
            client.info()

        def call(number: int) -> None:
            if number == 0:
                client.info()
            elif number == 1:
                client.gather(inner, [0])
            else:
                paused.wait()
                raise LookupError

        before = time.monotonic()
        with pytest.raises(LookupError):
            client.gather(call, range(3))
        assert time.monotonic() - before < 60


def test_gather_returns_results_in_order_with_fewer_threads_than_items() -> None:
    with sync_client_of(busy_once([])) as client:
        assert client.gather(lambda number: number * 2, range(100), limit=3) == list(range(0, 200, 2))
        assert client.gather(str, []) == []
