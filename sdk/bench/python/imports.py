"""The time to import the package, next to the time to import its two large dependencies."""

from __future__ import annotations

import subprocess
import sys

from report import Bar, Figure, Row

_ROUNDS = 21
_OURS = "from workspace_sdk import WorkspaceClient"
_PEER = "import httpx, pydantic"


def measure() -> Row:
    """Returns the row. Each import happens in a new process, in turns."""
    ours, peer = [], []
    for _ in range(_ROUNDS):
        ours.append(_milliseconds(_OURS))
        peer.append(_milliseconds(_PEER))
    # The first round may have to compile the sources.
    ours, peer = Figure.of(ours[1:]), Figure.of(peer[1:])
    return Row(f"{_OURS}, against {_PEER}", "ms", ours, peer, Bar(1.3, relative_to_peer=True))


def _milliseconds(statement: str) -> float:
    timed = f"import time; began = time.perf_counter(); {statement}; print((time.perf_counter() - began) * 1000)"
    return float(subprocess.run([sys.executable, "-c", timed], check=True, stdout=subprocess.PIPE).stdout)
