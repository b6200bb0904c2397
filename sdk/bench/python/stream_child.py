"""Reads the output of a command, in a process of its own, and prints figures as JSON.

A new process for each reading keeps the memory of one variant out of the figures of another. Each
variant imports only what it needs, for the same reason.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator

import memory
from bare import run_stream, settings
from output import printing

Lengths = AsyncIterator[int] | Iterator[int]


async def sdk_async(sandbox: str, commands: list[str]) -> AsyncIterator[int]:
    """Runs the commands with the async client; yields the length of the output of each."""
    from workspace_sdk import WorkspaceClient

    async with WorkspaceClient() as client:
        box = await client.sandbox.get(sandbox)
        for command in commands:
            count = 0
            async for event in box.process.run_stream(command, timeout=0):
                if event.type == "stdout":
                    count += len(event.data)
            yield count


def sdk_sync(sandbox: str, commands: list[str]) -> Iterator[int]:
    """Runs the commands with the sync client; yields the length of the output of each."""
    from workspace_sdk.sync import WorkspaceClient

    with WorkspaceClient() as client:
        box = client.sandbox.get(sandbox)
        for command in commands:
            count = 0
            for event in box.process.run_stream(command, timeout=0):
                if event.type == "stdout":
                    count += len(event.data)
            yield count


async def bare_async(sandbox: str, commands: list[str]) -> AsyncIterator[int]:
    """Runs the commands with httpx; yields the length of each response, without parsing it."""
    import httpx

    async with httpx.AsyncClient(**settings()) as client:
        for command in commands:
            count = 0
            async with client.stream(**run_stream(sandbox, command)) as response:
                response.raise_for_status()
                async for piece in response.aiter_raw():
                    count += len(piece)
            yield count


def bare_sync(sandbox: str, commands: list[str]) -> Iterator[int]:
    """Runs the commands with httpx; yields the length of each response, without parsing it."""
    import httpx

    with httpx.Client(**settings()) as client:
        for command in commands:
            count = 0
            with client.stream(**run_stream(sandbox, command)) as response:
                response.raise_for_status()
                for piece in response.iter_raw():
                    count += len(piece)
            yield count


class Readings:
    """Time and growth of memory (MiB) of each stream."""

    def __init__(self, sizes: list[int], exact: bool) -> None:
        self.sizes, self.exact = sizes, exact
        self.values: list[dict[str, float]] = []
        self._begin()

    def add(self, count: int) -> None:
        """Ends one reading, which received `count` bytes, and begins the next one."""
        seconds = time.perf_counter() - self.began
        growth = memory.peak() - self.level
        size = self.sizes[len(self.values)]
        # A bare client counts the bytes of the protocol as well.
        if count < size or (self.exact and count != size):
            raise RuntimeError(f"{count} of {size} bytes were received")
        self.values.append({"seconds": seconds, "growth": growth})
        self._begin()

    def _begin(self) -> None:
        self.level = memory.forget_peak()
        self.began = time.perf_counter()


async def main(variant: str, sandbox: str, size: int) -> None:
    """Reads a small stream, and the whole twice; prints the figures of the last two."""
    sizes = [1024, size, size]
    variants = {"sdk-async": sdk_async, "sdk-sync": sdk_sync, "bare-async": bare_async, "bare-sync": bare_sync}
    lengths: Lengths = variants[variant](sandbox, [printing(size) for size in sizes])
    readings = Readings(sizes, exact=variant.startswith("sdk"))
    if isinstance(lengths, AsyncIterator):
        async for count in lengths:
            readings.add(count)
    else:
        for count in lengths:
            readings.add(count)
    _, first, second = readings.values
    print(json.dumps({"first": first, "second": second}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
