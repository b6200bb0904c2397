"""The place in which the blocks of one page run: a server, a home and an empty directory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from pages import ROOT

sys.path.insert(0, str(ROOT / "sdk/scenarios"))

from stage_parts.server import Server, free_port

TIMEOUT_SECONDS = 120

# Blocks may show `sudo`, which a machine of the tests need not have; the tests run as root.
_SUDO = '#!/bin/sh\nexec "$@"\n'


class Place(Server):
    """A server that `elevo up` has started, as on the machine of a reader."""

    def __init__(self, elevo: Path) -> None:
        super().__init__()
        self.directory = self.scratch / "work"
        self.programs = self.scratch / "programs"
        self.outputs = self.scratch / "outputs"
        tools = self.scratch / "bin"
        home = self.scratch / "home"
        for made in (self.directory, self.programs, self.outputs, tools, home):
            made.mkdir()
        (tools / "sudo").write_text(_SUDO)
        (tools / "sudo").chmod(0o755)
        (tools / "elevo").symlink_to(elevo)
        self.log = self.scratch / "data/server.log"
        self.environment = {
            **self._settings,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(home),
            "METRICS_PORT": str(free_port()),
            "ELEVO_DATA": self._settings["DATA_DIR"],
            "ELEVO_PYTHON": os.environ.get("ELEVO_PYTHON", sys.executable),
            "ELEVO_NODE": os.environ.get("ELEVO_NODE", "node"),
            "PYTHONPATH": str(ROOT / "sdk/python/src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            "ELEVO_CHECKOUT": str(ROOT),
        }

    def up(self) -> None:
        """Starts the server, and creates the templates that pages use."""
        self._elevo("up", "--quiet")
        asyncio.run(self.add_templates())
        if "busybox" not in self._templates():
            self._post("/api/v1/templates", {"name": "busybox", "image": self._images["tiny"]})

    def _templates(self) -> set[str]:
        headers = {"Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(f"{self.url}/api/v1/templates", headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return {item["name"] for item in json.load(response)["items"]}

    def stop_server(self) -> None:
        """Stops the server; its templates stay."""
        self._elevo("down", "--quiet")

    def down(self) -> None:
        """Stops the server, and deletes everything that the page has made."""
        self._elevo("down", "--quiet", check=False)
        # A page may have started other servers, or commands in the background.
        for process in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.remove()

    def _processes(self) -> list[int]:
        """Returns the processes that have the home of this page."""
        mark = f"HOME={self.environment['HOME']}".encode()
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (directory / "environ").read_bytes().split(b"\0"):
                    found.append(int(directory.name))
        return found

    def _elevo(self, *arguments: str, check: bool = True) -> None:
        command = [str(self.scratch / "bin/elevo"), *arguments]
        done = subprocess.run(
            command, env=self.environment, cwd=self.directory, capture_output=True, text=True, check=False
        )
        if check and done.returncode != 0:
            raise SystemExit(f"blocks: `elevo {' '.join(arguments)}` failed:\n{done.stderr}")
