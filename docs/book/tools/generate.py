#!/usr/bin/env python3
"""Writes the generated pages of the reference; with --check, fails if one of them is stale."""

from __future__ import annotations

import sys

# The checkout stays free of caches.
sys.dont_write_bytecode = True

import difflib
from itertools import islice

from pages import ROOT, SOURCES
from reference import commands, events, metrics, rest, settings
from reference.markdown import NOTE


def main() -> int:
    """Returns 1 if a page is stale."""
    wanted: dict[str, str] = {}
    for part in (commands, events, metrics, rest, settings):
        wanted |= part.pages(ROOT)
    found = {
        str(file.relative_to(SOURCES)): text
        for file in SOURCES.glob("reference/**/*.md")
        if NOTE in (text := file.read_text())
    }
    stale = sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))
    if sys.argv[1:] != ["--check"]:
        for path in stale:
            write(path, wanted.get(path))
        return 0
    for path in stale:
        before, after = (side.get(path, "").splitlines() for side in (found, wanted))
        difference = difflib.unified_diff(before, after, f"docs/book/src/{path}", "generated", lineterm="")
        print("\n".join(islice(difference, 40)), file=sys.stderr)
    if stale:
        print(f"book: stale: {', '.join(stale)}; run scripts/book --generate and commit the result", file=sys.stderr)
    return 1 if stale else 0


def write(path: str, text: str | None) -> None:
    """Writes a page, or deletes one that is not generated any more."""
    file = SOURCES / path
    if text is None:
        file.unlink()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
