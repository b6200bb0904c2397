"""The time of one call of the SDK, next to a bare httpx request of the same route."""

from __future__ import annotations

import time

import httpx
from bare import settings
from report import Bar, Figure, Row
from workspace_sdk import WorkspaceClient, sync

_BAR = Bar(1, over_peer=True)


async def measure_async(client: WorkspaceClient, calls: int) -> Row:
    """Returns the row of the async client."""
    async with httpx.AsyncClient(**settings()) as bare, await client.sandbox.create(template="base") as box:
        path = f"/api/v1/sandboxes/{box.id}"
        ours: list[float] = []
        peer: list[float] = []
        for _ in range(_with_warm_up(calls)):
            began = time.perf_counter()
            await client.sandbox.get(box.id)
            between = time.perf_counter()
            (await bare.get(path)).json()
            ours.append(between - began)
            peer.append(time.perf_counter() - between)
    return _row("async", ours[-calls:], peer[-calls:])


def measure_sync(client: sync.WorkspaceClient, calls: int) -> Row:
    """Returns the row of the sync client."""
    with httpx.Client(**settings()) as bare, client.sandbox.create(template="base") as box:
        path = f"/api/v1/sandboxes/{box.id}"
        ours: list[float] = []
        peer: list[float] = []
        for _ in range(_with_warm_up(calls)):
            began = time.perf_counter()
            client.sandbox.get(box.id)
            between = time.perf_counter()
            bare.get(path).json()
            ours.append(between - began)
            peer.append(time.perf_counter() - between)
    return _row("sync", ours[-calls:], peer[-calls:])


def _with_warm_up(calls: int) -> int:
    # The first calls open connections and build models.
    return calls + 20


def _row(kind: str, ours: list[float], peer: list[float]) -> Row:
    def milliseconds(times: list[float]) -> Figure:
        return Figure.of([seconds * 1000 for seconds in times])

    return Row(f"sandbox.get, {kind}, over a GET by httpx", "ms", milliseconds(ours), milliseconds(peer), _BAR)
