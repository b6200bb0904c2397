"""Sandboxes created and deleted in a row: nothing that the client opened may remain."""

from __future__ import annotations

import asyncio
import os
import threading
import time

from report import Bar, Figure, Row
from workspace_sdk import WorkspaceClient


def _open() -> dict[str, int]:
    """Counts what this process has open."""
    targets = []
    # The listing itself has a descriptor open, which is gone when it is looked at.
    for name in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return {
        "descriptors": len(targets),
        "sockets": sum(target.startswith("socket:") for target in targets),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
    }


async def _settled(client: WorkspaceClient) -> dict[str, int]:
    """Counts what is open after one more request, which leaves the pool in a defined state."""
    await client.info()
    return _open()


async def measure(client: WorkspaceClient, count: int) -> list[Row]:
    """Returns a row for the time, and one for each kind of thing that could remain."""
    await _create_and_delete(client)
    before = await _settled(client)
    began = time.perf_counter()
    for _ in range(count):
        await _create_and_delete(client)
    seconds = time.perf_counter() - began
    after = await _settled(client)
    name = f"{count} sandboxes created and deleted in a row"
    rows = [Row(name, "s", Figure.of([seconds]))]
    for kind, number in before.items():
        ours, peer = Figure.of([float(after[kind])]), Figure.of([float(number)])
        rows.append(
            Row(f"{kind} after {count} sandboxes in a row, and before", kind, ours, peer, Bar(0, over_peer=True))
        )
    return rows


async def _create_and_delete(client: WorkspaceClient) -> None:
    async with await client.sandbox.create(template="base"):
        pass
