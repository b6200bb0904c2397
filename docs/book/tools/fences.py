"""The code blocks of a page, and their reasons if the book does not run them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pages import Line, Page

_FENCE = re.compile(r"^( *)(`{3,})([^`]*)$")
_SETTING = re.compile(r"^\s*<!-- run: (.+) -->$")
_FAILS = "<!-- fails -->"
_REASON = re.compile(r"^\s*<!-- (?:(\w+) blocks: )?(?:not run: (.+)|run by (.+)) -->$")


@dataclass(frozen=True)
class Reason:
    """Why the book does not run a block: in words, or the file of the test that runs it."""

    text: str
    is_test: bool


@dataclass(frozen=True)
class Block:
    """A code block."""

    language: str
    text: str
    line: Line
    reason: Reason | None
    # Whether each command of the block must fail, as in a page about errors.
    fails: bool = False
    # Whether the block is a comment that sets the scene for the next blocks, and that readers do not see.
    hidden: bool = False


def is_for_tests(line: Line) -> bool:
    """Returns whether a line is a comment about blocks, which readers do not need."""
    text = line.text.strip()
    return text == _FAILS or any(pattern.match(text) for pattern in (_SETTING, _REASON))


def blocks(page: Page) -> list[Block]:
    """Returns the code blocks of a page."""
    reasons: dict[str, Reason] = {}
    found: list[Block] = []
    own: Reason | None = None
    fails = False
    lines = iter(page.lines)
    for line in lines:
        if match := _FENCE.match(line.text):
            language = match[3].strip()
            text = _content(lines, len(match[1]), match[2])
            found.append(Block(language, text, line, own or reasons.get(language), fails))
            own, fails = None, False
        elif match := _SETTING.match(line.text):
            found.append(Block("sh", match[1], line, None, hidden=True))
        elif match := _REASON.match(line.text):
            reason = Reason(match[2] or match[3], is_test=match[3] is not None)
            if match[1]:
                reasons[match[1]] = reason
            else:
                own = reason
        elif line.text.strip():
            own, fails = None, line.text.strip() == _FAILS
    return found


def _content(lines: Iterator[Line], indent: int, fence: str) -> str:
    content = []
    for line in lines:
        if line.text.strip() == fence:
            break
        content.append(line.text[indent:] if not line.text[:indent].strip() else line.text)
    return "".join(f"{text}\n" for text in content)
