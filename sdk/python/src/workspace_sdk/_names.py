"""The public names and their modules. Each is imported when it is first used, so that the import is fast."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

# The modules of `_async` and `_sync`, which have the same names.
_MODULES = {
    "client": ("WorkspaceClient", "with_sandbox"),
    "files": ("Files", "ReadFiles"),
    "pages": ("Pages",),
    "process": ("Command", "Process"),
    "projects": ("Project",),
    "pty": ("Pty", "Terminal"),
    "reviews": ("Review",),
    "sandbox": ("Sandbox",),
    "snapshots": ("Snapshot", "SnapshotTaken"),
    "workspaces": ("Workspace",),
}
_SHARED = {
    "_command": ("CommandResult", "StreamEvent"),
    "_errors": ("WorkspaceError",),
    "_types": ("Batch", "CreateSandboxParams", "EventGap", "Page", "TerminalExit"),
    "webhooks": ("verify_webhook",),
}


def importer(module: str, package: str) -> Callable[[str], Any]:
    """Returns the function `__getattr__` of a module whose names are those of `_async` or `_sync`."""
    places = {name: f"workspace_sdk.{package}.{place}" for place, names in _MODULES.items() for name in names}
    places |= {name: f"workspace_sdk.{place}" for place, names in _SHARED.items() for name in names}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(importlib.import_module(places[name]), name)

    return get
