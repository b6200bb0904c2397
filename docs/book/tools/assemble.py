#!/usr/bin/env python3
"""Writes the sources for mdbook into a directory: pages with the documents they include.

Usage: assemble.py DIRECTORY
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

# The checkout stays free of caches.
sys.dont_write_bytecode = True

import pages
from links import Links
from pages import BOOK, SOURCES, Page


def main() -> None:
    """Writes pages, pictures, configuration and `llms.txt`."""
    target = Path(sys.argv[1])
    book = pages.read()
    links = Links(book)
    texts = {page.path: links.rewritten(page) for page in book}
    for path, text in texts.items():
        file = target / "src" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for file in SOURCES.rglob("*"):
        if file.is_file() and file.suffix != ".md":
            copy = target / "src" / file.relative_to(SOURCES)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    shutil.copyfile(SOURCES / "SUMMARY.md", target / "src/SUMMARY.md")
    for name in ("book.toml", "book.css"):
        shutil.copyfile(BOOK / name, target / name)
    (target / "llms.txt").write_text(index(book, texts))


def index(book: list[Page], texts: dict[str, str]) -> str:
    """Returns the list of pages for language models, as llmstxt.org describes it."""
    about = tomllib.loads((BOOK / "book.toml").read_text())["book"]
    lines = [f"# {about['title']}", "", f"> {about['description']}"]
    part = ""
    for page in book:
        if page.part != part:
            part = page.part
            lines += ["", f"## {part}", ""]
        about_page = introduction(texts[page.path])
        lines.append(f"- [{page.title}]({page.path})" + (f": {about_page}" if about_page else ""))
    return "\n".join(lines) + "\n"


def introduction(text: str) -> str | None:
    """Returns the first sentence of a page, if the page begins with one."""
    for paragraph in text.split("\n## ", 1)[0].split("\n\n"):
        if paragraph.strip() and not paragraph.lstrip().startswith(("#", "<", "|", "```", "!", "-")):
            sentence = " ".join(paragraph.split()).split(". ")[0].rstrip(".:")
            return f"{sentence}."
    return None


if __name__ == "__main__":
    try:
        main()
    except pages.Wrong as error:
        sys.exit(f"book: {error}")
