#!/usr/bin/env python3
"""Checks a built book: links, anchors, and that pages load nothing from the internet.

Usage: check.py DIRECTORY
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# The checkout stays free of caches.
sys.dont_write_bytecode = True

import pages
from links import is_external
from pages import BOOK

EXTERNAL_LINKS = BOOK / "external-links.txt"

# Attributes that make a browser load something.
_LOADS = {"src", "srcset", "poster", "data"}
# Parts of the theme.
_WITHOUT_TWIN = ("404.html", "toc.html")
_CSS_LOADS = re.compile(r"(?:@import\s+|url\()\s*[\"']?((?:https?:)?//[^\"')]+)")


class Html(HTMLParser):
    """Collects the anchors, the links and the loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an element."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in _LOADS and value:
                self.loads.add(value)
            # The base of the page for unknown addresses is the place of the book on a server.
            elif name == "href" and value and tag != "base":
                (self.links if tag == "a" else self.loads).add(value)


def main() -> int:
    """Returns 1 if something is wrong."""
    directory = Path(sys.argv[1])
    book = {file: Html(file.read_text()) for file in sorted(directory.rglob("*.html"))}
    listed = external_links()
    problems = []
    used: set[str] = set()
    for file, html in book.items():
        name = file.relative_to(directory)
        used |= {link for link in html.links if is_external(link)}
        problems += [f"{name}: {why}" for link in html.links | html.loads if (why := broken(link, file, book))]
        problems += [f"{name} loads {load}" for load in html.loads if is_external(load) or load.startswith("//")]
        if not file.with_suffix(".md").is_file() and name.name not in _WITHOUT_TWIN:
            problems.append(f"{name} has no Markdown twin")
    for file in directory.rglob("*.css"):
        problems += [f"{file.name} loads {load}" for load in _CSS_LOADS.findall(file.read_text())]
    list_name = EXTERNAL_LINKS.relative_to(pages.ROOT)
    problems += [f"{list_name} does not list {link}" for link in used - listed]
    problems += [f"{list_name} lists {link}, which no page has" for link in listed - used]
    for problem in sorted(problems):
        print(f"book: {problem}", file=sys.stderr)
    count = sum(len(html.links) for html in book.values())
    print(f"{len(book)} pages, {count} links, {len(used)} of them to the internet, {len(problems)} problems")
    return 1 if problems else 0


def external_links() -> set[str]:
    """Returns the addresses that pages may link to; fails if one has no host."""
    links = {line for line in EXTERNAL_LINKS.read_text().splitlines() if line and not line.startswith("#")}
    if wrong := sorted(link for link in links if not (urlsplit(link).scheme == "https" and urlsplit(link).hostname)):
        raise SystemExit(f"book: not an https address: {', '.join(wrong)}")
    return links


def broken(link: str, file: Path, book: dict[Path, Html]) -> str | None:
    """Returns why a link inside of the book leads nowhere."""
    if is_external(link) or link.startswith("//"):
        return None
    path, _, fragment = link.partition("#")
    target = (file.parent / unquote(path)).resolve() if path else file
    if not target.is_file():
        return f"there is no {link}"
    if fragment and target.suffix == ".html" and unquote(fragment) not in book[target].anchors:
        return f"there is no anchor {link}"
    return None


if __name__ == "__main__":
    sys.exit(main())
