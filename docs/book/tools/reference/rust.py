"""Tables in Rust sources, which the server itself prints: the list is the source of the page."""

from __future__ import annotations

import re
from pathlib import Path

_STRING = r'"((?:[^"\\]|\\.|\\\n)*)"'
_ENTRY = re.compile(rf"\(\s*{_STRING},\s*{_STRING},?\s*\)", re.DOTALL)
_CONTINUED = re.compile(r"\\\n\s*")


def table(file: Path, name: str) -> list[tuple[str, str]]:
    """Returns the entries of a constant `&[(&str, &str)]`."""
    source = file.read_text()
    start = re.search(rf"\b{name}: &\[\(&str, &str\)\] = &\[", source)
    if not start:
        raise SystemExit(f"book: {file} has no table {name} any more; adapt docs/book/tools/reference")
    body = source[start.end() : source.index("\n];", start.end())]
    entries = [(match[1], _plain(match[2])) for match in _ENTRY.finditer(body)]
    # A form that the pattern does not know must not drop an entry.
    if len(entries) != len(re.findall(r"^    \(", body, re.MULTILINE)):
        raise SystemExit(f"book: the table {name} in {file} has entries of a new form; adapt docs/book/tools/reference")
    return entries


def _plain(literal: str) -> str:
    return _CONTINUED.sub("", literal).replace('\\"', '"')
