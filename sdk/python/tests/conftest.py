"""The stage, for tests that need a real server."""

from __future__ import annotations

import json
import os
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

import pytest


class Stage:
    """The control of the stage that sdk/scenarios/stage.py started."""

    def __init__(self, url: str) -> None:
        self._url = url

    def send(self, command: str, **body: Any) -> Any:
        """Sends a request, and returns the response."""
        request = urllib.request.Request(f"{self._url}/{command}", data=json.dumps(body).encode())
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def processes(self, text: str) -> int:
        """Returns the number of processes in sandboxes whose command line has the text."""
        return int(self.send("processes", contains=text)["count"])

    def wait_for_processes(self, text: str, count: int) -> None:
        """Waits until there are so many processes."""
        eventually(lambda: self.processes(text) == count, f"there are {count} processes with {text}")


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"not within a minute: {what}"
        time.sleep(0.05)


@pytest.fixture
def stage() -> Stage:
    url = os.environ.get("ELEVO_STAGE")
    if not url:
        pytest.skip("needs a server: run it with sdk/scenarios/stage.py -- pytest")
    started = Stage(url)
    started.send("scenario", name="pytest")
    return started


@pytest.fixture
def mark() -> str:
    """A text that only the commands of one test have."""
    return f"mark-{uuid.uuid4().hex}"
