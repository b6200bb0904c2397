"""Draws a terminal session as an SVG file in which commands appear one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from xml.etree import ElementTree

SIZE = 14
LINE = 19
# Width of a character in common monospaced fonts, in parts of the size.
ASPECT = 0.602
MARGIN = 16
SECONDS_BEFORE_OUTPUT = 0.7
SECONDS_BEFORE_COMMAND = 1.3

# Parameters of "select graphic rendition" (ECMA-48) that elevo uses.
CLASSES = {1: "bold", 2: "dim", 7: "mark", 31: "red", 32: "green", 33: "yellow", 36: "cyan"}
_STYLE = re.compile(r"\x1b\[([0-9;]*)m")
# Sequences that move the cursor or erase: those of progress bars.
_OTHER = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]")

_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="A terminal session">
<style>
  text {{ font: {size}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e2e8f0; white-space: pre; }}
  .prompt {{ fill: #64748b; }} .bold {{ font-weight: bold; }} .dim {{ fill: #94a3b8; }} .mark {{ text-decoration: underline; }}
  .red {{ fill: #f87171; }} .green {{ fill: #4ade80; }} .yellow {{ fill: #facc15; }} .cyan {{ fill: #22d3ee; }}
  g {{ animation: appear 0.1s both; }}
  @keyframes appear {{ from {{ opacity: 0; }} }}
  @media (prefers-reduced-motion: reduce) {{ g {{ animation: none; }} }}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#0f172a"/>
"""


@dataclass
class Step:
    """A command, and the output of it with its styles."""

    command: str
    output: str


@dataclass
class Cell:
    """A character with its styles."""

    text: str
    styles: tuple[str, ...] = ()


def svg(steps: list[Step], columns: int) -> str:
    """Returns the session as an SVG file."""
    groups: list[tuple[float, list[list[Cell]]]] = []
    seconds = 0.0
    for step in steps:
        prompt = [Cell("$", ("prompt",)), Cell(" ")] + [Cell(character, ("bold",)) for character in step.command]
        groups.append((seconds, wrapped(prompt, columns)))
        seconds += SECONDS_BEFORE_OUTPUT
        shown = [row for line in styled(step.output) for row in wrapped(line, columns)]
        groups.append((seconds, shown))
        seconds += SECONDS_BEFORE_COMMAND
    count = sum(len(rows) for _, rows in groups)
    width, height = round(columns * SIZE * ASPECT) + 2 * MARGIN, count * LINE + 2 * MARGIN
    parts = [_HEAD.format(width=width, height=height, size=SIZE)]
    y = MARGIN + SIZE
    for delay, rows in groups:
        parts.append(f'<g style="animation-delay: {delay:.1f}s">\n')
        for row in rows:
            parts.append(f'<text x="{MARGIN}" y="{y}">{runs(row)}</text>\n')
            y += LINE
        parts.append("</g>\n")
    return "".join(parts) + "</svg>\n"


def lines(file: str, columns: int) -> list[str]:
    """Returns the text of a recording, with the lines that the terminal wrapped in one piece."""
    found: list[str] = []
    is_wrapped = False
    for row in ElementTree.fromstring(file).iter("{http://www.w3.org/2000/svg}text"):
        text = "".join(row.itertext())
        if is_wrapped:
            found[-1] += text
        else:
            found.append(text)
        is_wrapped = len(text) == columns
    return found


def styled(output: str) -> list[list[Cell]]:
    """Returns the lines of an output."""
    rows: list[list[Cell]] = [[]]
    styles: tuple[str, ...] = ()
    for number, piece in enumerate(_STYLE.split(_OTHER.sub("", output))):
        if number % 2:
            codes = [int(code or 0) for code in piece.split(";")]
            styles = () if 0 in codes else styles + tuple(CLASSES[code] for code in codes)
            continue
        for character in piece.replace("\r\n", "\n"):
            if character == "\n":
                rows.append([])
            elif character == "\r":
                # A progress bar draws its line again.
                rows[-1] = []
            else:
                rows[-1].append(Cell(character, styles))
    return rows if rows[-1] else rows[:-1]


def wrapped(row: list[Cell], columns: int) -> list[list[Cell]]:
    """Returns a line as the lines of a terminal."""
    return [row[start : start + columns] for start in range(0, len(row), columns)] or [[]]


def runs(row: list[Cell]) -> str:
    """Returns a line as SVG, with an element for each run of equal styles."""
    parts: list[str] = []
    start = 0
    for end in range(1, len(row) + 1):
        if end == len(row) or row[end].styles != row[start].styles:
            text = escape("".join(cell.text for cell in row[start:end]), quote=False)
            names = " ".join(row[start].styles)
            parts.append(f'<tspan class="{names}">{text}</tspan>' if names else text)
            start = end
    return "".join(parts)
