"""Rows of measurements: figures, bars, the table and the JSON of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """The median of some samples, with their tenth and ninetieth percentile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: list[float]) -> Figure:
        """Returns the figure of at least one sample."""
        ordered = sorted(samples)
        last = len(ordered) - 1
        low, median, high = (ordered[round(last * share)] for share in (0.1, 0.5, 0.9))
        return cls(median, low, high)

    def text(self) -> str:
        """Returns the median, and the range if there is one."""
        if self.low == self.high:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)}–{number(self.high)})"


@dataclass(frozen=True)
class Bar:
    """A limit of a row, for the median, its ratio to the peer's, or its excess over the peer's."""

    limit: float
    at_least: bool = False
    relative_to_peer: bool = False
    over_peer: bool = False


@dataclass(frozen=True)
class Row:
    """One measure: our figure, the figure of a peer, and the bar."""

    name: str
    unit: str
    ours: Figure
    peer: Figure | None = None
    bar: Bar | None = None

    def held(self) -> bool | None:
        """Returns whether the row meets its bar; `None` if it has no bar."""
        if self.bar is None:
            return None
        value = self.ours.median
        if self.bar.relative_to_peer:
            value /= self._peer_median()
        if self.bar.over_peer:
            value -= self._peer_median()
        return value >= self.bar.limit if self.bar.at_least else value <= self.bar.limit

    def bar_text(self) -> str:
        """Returns the bar in words."""
        if self.bar is None:
            return ""
        kind = "at least" if self.bar.at_least else "at most"
        if self.bar.relative_to_peer:
            return f"{kind} {number(self.bar.limit)} × the peer"
        if self.bar.over_peer:
            return f"{kind} {number(self.bar.limit)} {self.unit} over the peer"
        return f"{kind} {number(self.bar.limit)} {self.unit}"

    def cells(self) -> list[str]:
        """Returns the cells of the row in the table."""
        peer = f"{self.peer.text()} {self.unit}" if self.peer else ""
        held = {None: "", True: "yes", False: "**no**"}[self.held()]
        return [self.name, f"{self.ours.text()} {self.unit}", peer, self.bar_text(), held]

    def as_json(self) -> dict[str, object]:
        """Returns the row for the JSON file."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": vars(self.ours),
            "peer": vars(self.peer) if self.peer else None,
            "bar": self.bar_text() or None,
            "held": self.held(),
        }

    def _peer_median(self) -> float:
        if self.peer is None:
            raise ValueError(f"the bar of {self.name!r} needs a peer")
        return self.peer.median


def number(value: float) -> str:
    """Returns a number with three significant digits, and integers as they are."""
    if value == int(value):
        return str(int(value))
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def table(rows: list[Row]) -> str:
    """Returns the rows as a Markdown table."""
    head = ["measure", "ours", "peer", "bar", "held"]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def finish(rows: list[Row], json_file: Path | None) -> int:
    """Prints the table and writes the JSON file. Returns 1 if a bar was missed, else 0."""
    print(table(rows))
    if json_file:
        json_file.write_text(json.dumps([row.as_json() for row in rows], indent=2) + "\n")
    bars = [row for row in rows if row.bar]
    missed = [row.name for row in bars if not row.held()]
    suffix = f"; missed: {', '.join(missed)}" if missed else ""
    print(f"\n{len(bars) - len(missed)} of {len(bars)} bars held{suffix}")
    return 1 if missed else 0
