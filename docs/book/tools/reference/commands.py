"""The pages of the commands, from the help texts that a test compares with the program."""

from __future__ import annotations

import re
from pathlib import Path

from . import markdown

_SNAPSHOTS = "crates/cli/src/snapshots"
_PREFIX = "elevo__args__tests__help"

_INTRODUCTION = [
    "All commands of `elevo`, as `elevo help` prints them. [Command line](cli.md) explains them with examples.",
    "",
]


def pages(root: Path) -> dict[str, str]:
    """Returns a page of all commands, and one for each command with others below it."""
    snapshots = root / _SNAPSHOTS
    top = _help(snapshots / f"{_PREFIX}.snap")
    found: dict[str, str] = {}
    rows, lines = [], _sections({"elevo": top})
    for name, summary in _summaries(top).items():
        commands = _commands(_help(snapshots / f"{_PREFIX}-{name}.snap"))
        if len(commands) > 1:
            target = f"commands/{name}.md"
            found[f"reference/{target}"] = markdown.page(f"elevo {name}", [f"{summary}.", "", *_sections(commands)])
        else:
            target = f"#{_anchor(f'elevo {name}')}"
            lines += _sections(commands)
        rows.append([f"[`elevo {name}`]({target})", markdown.cell(summary)])
    lines = [*_INTRODUCTION, *markdown.table(["command", ""], rows), *lines]
    found["reference/commands.md"] = markdown.page("Commands", lines)
    return found


def _help(file: Path) -> str:
    """Returns the text of a snapshot without its head."""
    return file.read_text().split("\n---\n", 1)[1]


def _summaries(text: str) -> dict[str, str]:
    """Returns the top-level commands with their summaries."""
    body = text.split("\nCommands:\n", 1)[1].split("\n\n", 1)[0]
    return dict(re.findall(r"^  (\S+) +(.+)$", body, re.MULTILINE))


def _commands(text: str) -> dict[str, str]:
    """Returns the commands of a snapshot with their help."""
    parts = re.split(r"^# (elevo[^\n]*)\n\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _sections(commands: dict[str, str]) -> list[str]:
    lines = []
    for name, text in commands.items():
        lines += [f"## {name}", "", "```text", text.strip("\n"), "```", ""]
    return lines


def _anchor(heading: str) -> str:
    return heading.replace(" ", "-")
