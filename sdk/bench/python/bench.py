"""Benchmarks of the Python SDK; sdk/bench/README.md has the command.

Exits with 0 if all bars were held, and with 1 if not.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import call
import imports
import sandboxes
import stream
import workspace_sdk
from report import Row, finish
from workspace_sdk import sync

_MEASURES = ("import", "call", "stream", "sandboxes")


def main() -> int:
    """Runs the measures and prints the table."""
    parser = argparse.ArgumentParser(description="Benchmarks of the Python SDK.")
    parser.add_argument("--only", nargs="+", choices=_MEASURES, default=_MEASURES, help="the measures to run")
    parser.add_argument("--size", type=int, default=1024, help="MiB of streamed output")
    parser.add_argument("--calls", type=int, default=1000, help="number of calls")
    parser.add_argument("--sandboxes", type=int, default=1000, help="number of sandboxes in a row")
    parser.add_argument("--json", type=Path, help="a file for the rows as JSON")
    arguments = parser.parse_args()

    rows: list[Row] = []
    if "import" in arguments.only:
        rows.append(imports.measure())
    with sync.WorkspaceClient() as client:
        if "call" in arguments.only:
            rows.append(call.measure_sync(client, arguments.calls))
        if "stream" in arguments.only:
            rows += stream.measure(client, arguments.size << 20)
    rows += asyncio.run(_measure_async(arguments))
    return finish(rows, arguments.json)


async def _measure_async(arguments: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    async with workspace_sdk.WorkspaceClient() as client:
        if "call" in arguments.only:
            rows.append(await call.measure_async(client, arguments.calls))
        if "sandboxes" in arguments.only:
            rows += await sandboxes.measure(client, arguments.sandboxes)
    return rows


if __name__ == "__main__":
    sys.exit(main())
