"""Requests without the SDK, to compare with."""

from __future__ import annotations

import os
from typing import Any


def settings() -> dict[str, Any]:
    """Returns the arguments of an httpx client: the server, the key, and no time limit."""
    headers = {"Authorization": f"Bearer {os.environ['ELEVO_API_KEY']}"}
    return {"base_url": os.environ["ELEVO_SERVER"], "headers": headers, "timeout": None}


def run_stream(sandbox: str, command: str) -> dict[str, Any]:
    """Returns the arguments of a request that streams the output of a command."""
    body = {"command": command, "stream": True, "timeout": 0}
    return {"method": "POST", "url": f"/api/v1/sandboxes/{sandbox}/process/run", "json": body}
