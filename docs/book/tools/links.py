"""Links of pages: between pages, to files of the repository, and to the internet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from fences import is_for_tests
from pages import ROOT, SOURCES, Line, Page, Wrong

# A code span, or a link or an image with its text and its target.
_SPAN_OR_LINK = re.compile(
    r"(?P<code>`+[^`]*`+)|(?P<image>!?)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^()\s]+)\)"
)
_FENCE = re.compile(r"^\s*```")
_HEADING = re.compile(r"^#+ (.+?)(?: \{#([\w-]+)\})?$")


def is_external(target: str) -> bool:
    """Returns whether a target is an address rather than a file."""
    return re.match(r"[a-z][a-z0-9+.-]*:", target) is not None


class Links:
    """Knows in which page each file of the repository is."""

    def __init__(self, pages: list[Page]) -> None:
        self._page_of: dict[Path, str] = {}
        for page in pages:
            for file in page.files:
                self._page_of.setdefault(file, page.path)

    def rewritten(self, page: Page) -> str:
        """Returns the text of a page, with links that work in the book."""
        return "".join(f"{line}\n" for line in _outside_code(page, lambda line: self._line(page, line)))

    def _line(self, page: Page, line: Line) -> str:
        def replace(match: re.Match[str]) -> str:
            if match["code"]:
                return match[0]
            return self._link(page, line, match["image"], match["text"], match["target"])

        return _SPAN_OR_LINK.sub(replace, line.text)

    def _link(self, page: Page, line: Line, image: str, text: str, target: str) -> str:
        if is_external(target) or target.startswith("#"):
            return f"{image}[{text}]({target})"
        path, _, fragment = target.partition("#")
        file = (line.file.parent / path).resolve()
        if not file.exists():
            raise Wrong(f"{line.place}: there is no {target}")
        anchor = f"#{fragment}" if fragment else ""
        if inside := self._page_of.get(file) or _picture(file):
            return f"{image}[{text}]({os.path.relpath(inside, Path(page.path).parent)}{anchor})"
        if fragment and fragment not in anchors(file):
            raise Wrong(f"{line.place}: {path} has no heading #{fragment}")
        # The book is read without the repository, so it names the file.
        name = f"`{file.relative_to(ROOT)}`"
        return name if text.strip("`") in (target, file.name, str(file.relative_to(ROOT))) else f"{text} ({name})"


def _picture(file: Path) -> str | None:
    return str(file.relative_to(SOURCES)) if file.is_relative_to(SOURCES) and file.suffix != ".md" else None


def _outside_code(page: Page, change: Callable[[Line], str]) -> list[str]:
    """Applies a change to the lines that are not in code blocks; leaves out comments about blocks."""
    lines, is_code = [], False
    for line in page.lines:
        if not is_code and is_for_tests(line):
            continue
        is_fence = _FENCE.match(line.text) is not None
        lines.append(line.text if is_code or is_fence else change(line))
        is_code ^= is_fence
    return lines


def anchors(file: Path) -> set[str]:
    """Returns the anchors of the headings of a document."""
    matches = [match for text in file.read_text().splitlines() if (match := _HEADING.match(text))]
    return {match[2] or slug(match[1]) for match in matches}


def slug(heading: str) -> str:
    """Returns the anchor of a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.strip().replace(" ", "-")
