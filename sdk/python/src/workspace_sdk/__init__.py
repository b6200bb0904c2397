"""Client of the Elevo workspace server for asyncio; `workspace_sdk.sync` is the same without `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._names import importer
from ._version import __version__

if TYPE_CHECKING:
    from ._async.client import WorkspaceClient, with_sandbox
    from ._async.files import Files, ReadFiles
    from ._async.pages import Pages
    from ._async.process import Command, Process
    from ._async.projects import Project
    from ._async.pty import Pty, Terminal
    from ._async.reviews import Review
    from ._async.sandbox import Sandbox
    from ._async.snapshots import Snapshot, SnapshotTaken
    from ._async.workspaces import Workspace
    from ._command import CommandResult, StreamEvent
    from ._errors import WorkspaceError
    from ._types import Batch, CreateSandboxParams, EventGap, Page, TerminalExit
    from .webhooks import verify_webhook

__all__ = [
    "Batch",
    "Command",
    "CommandResult",
    "CreateSandboxParams",
    "EventGap",
    "Files",
    "Page",
    "Pages",
    "Process",
    "Project",
    "Pty",
    "ReadFiles",
    "Review",
    "Sandbox",
    "Snapshot",
    "SnapshotTaken",
    "StreamEvent",
    "Terminal",
    "TerminalExit",
    "Workspace",
    "WorkspaceClient",
    "WorkspaceError",
    "__version__",
    "verify_webhook",
    "with_sandbox",
]

__getattr__ = importer(__name__, "_async")
