"""The command whose output is streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workspace_sdk.sync import Sandbox

_PARTS = 16


def prepare(box: Sandbox, size: int) -> None:
    """Writes the file that the command prints repeatedly, which costs little next to the transfer."""
    line = "the quick brown fox jumps over the lazy dog"
    box.process.run(f"yes {line} | head -c {size // _PARTS} > part").check()


def printing(size: int) -> str:
    """Returns a command that prints `size` bytes, at most as many as `prepare` was given."""
    return f"for n in $(seq {_PARTS}); do head -c {size // _PARTS} part; done"
