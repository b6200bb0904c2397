"""The pages of the book: its summary, its sources, and the documents that pages include."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BOOK = ROOT / "docs/book"
SOURCES = BOOK / "src"

_CHAPTER = re.compile(r"^ *(?:- )?\[([^\]]+)\]\(([^)]+)\)$", re.MULTILINE)
_PART = re.compile(r"^# (.+)$", re.MULTILINE)
_INCLUDE = re.compile(r"^\{\{#include ([^}]+)\}\}$", re.MULTILINE)


class Wrong(Exception):
    """A mistake in the sources of the book, with the file and the remedy."""


@dataclass(frozen=True)
class Line:
    """A line of a page, with the file that has it."""

    text: str
    file: Path
    number: int

    @property
    def place(self) -> str:
        """Returns the file and the number of the line."""
        return f"{self.file.relative_to(ROOT)}:{self.number}"


@dataclass(frozen=True)
class Page:
    """A page of the book, with the documents that it includes."""

    part: str
    title: str
    path: str
    lines: tuple[Line, ...]

    @property
    def files(self) -> set[Path]:
        """Returns the files that the page consists of."""
        return {SOURCES / self.path, *(line.file for line in self.lines)}


def read(names: list[str] | None = None) -> list[Page]:
    """Returns the pages in the order of the summary: those with the names, or all."""
    summary = (SOURCES / "SUMMARY.md").read_text()
    parts = [(match.start(), match[1]) for match in _PART.finditer(summary)]
    chapters = list(_CHAPTER.finditer(summary))
    _check_named({match[2] for match in chapters}, set(names or []))
    pages = []
    for match in chapters:
        if not names or match[2] in names:
            part = [name for start, name in parts if start < match.start()][-1]
            pages.append(Page(part, match[1], match[2], tuple(_lines(SOURCES / match[2]))))
    return pages


def _check_named(chapters: set[str], names: set[str]) -> None:
    found = {str(file.relative_to(SOURCES)) for file in SOURCES.rglob("*.md")} - {"SUMMARY.md"}
    if missing := sorted(found - chapters):
        raise Wrong(f"docs/book/src/SUMMARY.md does not name {', '.join(missing)}")
    if unknown := sorted(names - chapters):
        raise Wrong(f"docs/book/src/SUMMARY.md has no page {', '.join(unknown)}")


def _lines(file: Path) -> list[Line]:
    if not file.is_file():
        raise Wrong(f"{file.relative_to(ROOT)} does not exist; write it, or remove it from its summary or page")
    lines = []
    for number, text in enumerate(file.read_text().splitlines(), 1):
        if match := _INCLUDE.match(text):
            lines += _lines((file.parent / match[1]).resolve())
        else:
            lines.append(Line(text, file, number))
    return lines
