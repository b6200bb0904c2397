"""Client of the Elevo workspace server for asyncio; `workspace_sdk.sync` is the same without `await`."""

from __future__ import annotations

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
from ._errors import WorkspaceError
from ._types import Batch, CommandResult, CreateSandboxParams, EventGap, Page, StreamEvent, TerminalExit
from ._version import __version__
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
