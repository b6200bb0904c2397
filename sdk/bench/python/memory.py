"""The resident memory of this process, as Linux counts it."""

from __future__ import annotations

import re
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def forget_peak() -> float:
    """Resets the high-water mark to the present level. Returns the level in MiB."""
    # The kernel's code for "reset the peak resident set size".
    _CLEAR.write_text("5")
    return _field("VmRSS")


def peak() -> float:
    """Returns the high-water mark since `forget_peak`, in MiB."""
    return _field("VmHWM")


def _field(name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if not found:
        raise RuntimeError(f"{_STATUS} has no line {name}; the benchmark needs Linux")
    return int(found[1]) / 1024
