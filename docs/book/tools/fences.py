"""The code blocks of a page, and the reasons of those that do not run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pages import Line, Page

_FENCE = re.compile(r"^( *)(`{3,})([^`]*)$")
_REASON = re.compile(r"^\s*<!-- not run: (.+) -->$")
_PAGE_REASON = re.compile(r"^\s*<!-- (\w+) blocks: (not run|run by) (.+) -->$")


@dataclass(frozen=True)
class Block:
    """A code block."""

    language: str
    text: str
    line: Line
    # Why the book does not run the block, or the test that runs it; empty if the book runs it.
    reason: str


def blocks(page: Page) -> list[Block]:
    """Returns the code blocks of a page."""
    reasons = {}
    for line in page.lines:
        if match := _PAGE_REASON.match(line.text):
            reasons[match[1]] = match[3] if match[2] == "not run" else f"run by {match[3]}"
    found: list[Block] = []
    reason = ""
    lines = iter(page.lines)
    for line in lines:
        if match := _FENCE.match(line.text):
            language = match[3].split(",")[0].strip()
            text = _content(lines, len(match[1]), match[2])
            found.append(Block(language, text, line, reason or reasons.get(language, "")))
            reason = ""
        elif match := _REASON.match(line.text):
            reason = match[1]
        elif line.text.strip():
            reason = ""
    return found


def _content(lines: Iterator[Line], indent: int, fence: str) -> str:
    content = []
    for line in lines:
        if line.text.strip() == fence:
            break
        content.append(line.text[indent:] if not line.text[:indent].strip() else line.text)
    return "".join(f"{text}\n" for text in content)
