#!/usr/bin/env python3
"""Checks that a built book has every route, setting, error, metric, command and alert.

Usage: complete.py DIRECTORY
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

# The checkout stays free of caches.
sys.dont_write_bytecode = True

from pages import ROOT
from reference import rust

_SERVER = ROOT / "crates/server/src"


def routes() -> dict[str, str]:
    """Returns the text that shows each route."""
    api = json.loads((ROOT / "openapi/elevo.json").read_text())
    operations = [(method.upper(), path) for path, item in api["paths"].items() for method in item]
    return {f"{method} {path}": f"`{method} {path}`" for method, path in operations}


def settings() -> dict[str, str]:
    """Returns the text that shows each setting."""
    return {name: f"`{name}` |" for name, _ in rust.table(_SERVER / "config/descriptions.rs", "SETTINGS")}


def errors() -> dict[str, str]:
    """Returns the text that shows each error."""
    listed = json.loads((ROOT / "openapi/errors.json").read_text())["errors"]
    return {error["name"]: f"`{error['name']}`" for error in listed}


def metrics() -> dict[str, str]:
    """Returns the text that shows each metric that the sources record, described or not."""
    found: set[str] = set()
    for file in _SERVER.rglob("*.rs"):
        found |= set(re.findall(r'\b(?:counter|gauge|histogram)!\(\s*"(\w+)"', file.read_text()))
    return {name: f"| `{name}` |" for name in found}


def commands() -> dict[str, str]:
    """Returns the heading of each command that a test knows."""
    snapshots = (ROOT / "crates/cli/src/snapshots").glob("elevo__args__tests__help-*.snap")
    names = {name for file in snapshots for name in re.findall(r"^# (elevo .+)$", file.read_text(), re.MULTILINE)}
    return {name: f"\n## {name}\n" for name in names}


def alerts() -> dict[str, str]:
    """Returns the heading of each alert."""
    rules = (ROOT / "deploy/prometheus/elevo.rules.yml").read_text()
    return {name: f"\n## {name}\n" for name in re.findall(r"- alert: (\w+)", rules)}


_LISTS: dict[str, tuple[Callable[[], dict[str, str]], str]] = {
    "routes": (routes, "reference/rest/*.md"),
    "settings": (settings, "reference/settings.md"),
    "errors": (errors, "reference/errors.md"),
    "metrics": (metrics, "reference/metrics.md"),
    "commands": (commands, "reference/**/*.md"),
    "alerts": (alerts, "operations/alerts.md"),
}


def main() -> int:
    """Returns 1 if something is missing."""
    directory = Path(sys.argv[1])
    missing = []
    counts = []
    for kind, (listed, pattern) in _LISTS.items():
        text = "\n".join(file.read_text() for file in directory.glob(pattern))
        found = listed()
        missing += [f"{pattern} has no {name}" for name, shown in found.items() if shown not in text]
        counts.append(f"{len(found)} {kind}")
        if not found:
            missing.append(f"no {kind} were found in the sources; adapt docs/book/tools/complete.py")
    for line in sorted(missing):
        print(f"book: {line}", file=sys.stderr)
    print(f"the reference has {', '.join(counts)}" if not missing else f"{len(missing)} are missing")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
