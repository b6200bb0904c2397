"""The page of the settings of the server."""

from __future__ import annotations

import re
from pathlib import Path

from . import markdown, rust

_DEFAULT = re.compile(r"^(.*?)(?: \[(.*)\])?$", re.DOTALL)

_INTRODUCTION = [
    "All settings of the server. Each is an environment variable, or a line of the settings file (`--config`) with",
    "the name in lower case; the environment overrides the file. `workspace-server --help` prints this list, and",
    "`elevo server config check` checks a file without a start. [Running a server](../operations/server.md) explains",
    "when to change them.",
    "",
    "```toml",
    'api_host = "127.0.0.1"',
    "api_port = 8080",
    'default_memory = "1g"',
    "```",
    "",
    "Sizes have a suffix `k`, `m`, `g` or `t` (powers of 1,024). A setting without a default is not set.",
    "",
]


def pages(root: Path) -> dict[str, str]:
    """Returns the page of the settings."""
    rows = []
    for name, description in rust.table(root / "crates/server/src/config/descriptions.rs", "SETTINGS"):
        match = _DEFAULT.match(description)
        assert match
        rows.append([f'<a id="{name.lower()}"></a>`{name}`', markdown.cell(match[1]), markdown.cell(match[2] or "")])
    lines = [*_INTRODUCTION, *markdown.table(["setting", "meaning", "default"], rows)]
    return {"reference/settings.md": markdown.page("Settings", lines)}
