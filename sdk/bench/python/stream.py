"""Throughput and memory of `run_stream`, next to a bare httpx read of the same stream."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from output import prepare
from report import Bar, Figure, Row
from workspace_sdk.sync import WorkspaceClient

_ROUNDS = 3
_CHILD = Path(__file__).with_name("stream_child.py")


def measure(client: WorkspaceClient, size: int) -> list[Row]:
    """Returns the rows of the async and of the sync client."""
    with client.sandbox.create(template="base", resources={"memory": "512m", "disk": "512m"}) as box:
        prepare(box, size)
        return [row for kind in ("async", "sync") for row in _rows(kind, box.id, size)]


def _rows(kind: str, sandbox: str, size: int) -> list[Row]:
    ours, peer = [], []
    for _ in range(_ROUNDS):
        ours.append(_child(f"sdk-{kind}", sandbox, size))
        peer.append(_child(f"bare-{kind}", sandbox, size))

    def rate(readings: list[dict]) -> Figure:
        return Figure.of([size / 1e6 / reading["second"]["seconds"] for reading in readings])

    def growth(part: str, bar: Bar) -> Row:
        figures = [Figure.of([reading[part]["growth"] for reading in readings]) for readings in (ours, peer)]
        return Row(f"{name}, the {part} time: growth of memory", "MiB", *figures, bar)

    name = f"{size >> 20} MiB by run_stream, {kind}"
    return [
        Row(name, "MB/s", rate(ours), rate(peer), Bar(60, at_least=True)),
        growth("first", Bar(32, over_peer=True)),
        growth("second", Bar(32)),
    ]


def _child(variant: str, sandbox: str, size: int) -> dict:
    command = [sys.executable, str(_CHILD), variant, sandbox, str(size)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
