"""Client of the Elevo workspace server for programs without asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._names import importer

if TYPE_CHECKING:
    from ._command import CommandResult, StreamEvent
    from ._errors import WorkspaceError
    from ._sync.client import WorkspaceClient, with_sandbox
    from ._sync.files import Files, ReadFiles
    from ._sync.pages import Pages
    from ._sync.process import Command, Process
    from ._sync.projects import Project
    from ._sync.pty import Pty, Terminal
    from ._sync.reviews import Review
    from ._sync.sandbox import Sandbox
    from ._sync.snapshots import Snapshot, SnapshotTaken
    from ._sync.workspaces import Workspace
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
    "verify_webhook",
    "with_sandbox",
]

__getattr__ = importer(__name__, "_sync")
