"""The server under test, in a scratch directory of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request
from pathlib import Path

READY_SECONDS = 60


def needed(name: str, how: str) -> str:
    """Returns a variable of the environment; ends the stage with advice if it is missing."""
    if value := os.environ.get(name):
        return value
    raise SystemExit(f"stage: {name} is not set: {how}")


def binary() -> str:
    """Returns the path of the server."""
    if named := os.environ.get("ELEVO_TEST_SERVER"):
        return named
    target = needed("CARGO_TARGET_DIR", 'run `eval "$(scripts/env)"`, or set ELEVO_TEST_SERVER')
    return f"{target}/debug/workspace-server"


def free_port() -> int:
    """Returns a free port that no outgoing connection gets while its server restarts."""
    for port in random.sample(range(20_000, 30_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise SystemExit("stage: no port between 20000 and 30000 is free")


class Server:
    """A server whose address and data stay the same when it restarts."""

    def __init__(self) -> None:
        services = 'run `scripts/services up docker` and `eval "$(scripts/services env docker)"`'
        self._images = {
            name: needed(f"ELEVO_TEST_IMAGE_{name.upper()}", services) for name in ("base", "python", "tiny")
        }
        self._docker = needed("DOCKER_HOST", services)
        agent = needed("ELEVO_AGENT", "run `export ELEVO_AGENT=$(scripts/agent)`")
        self.scratch = Path(tempfile.mkdtemp(prefix="elevo-stage-"))
        self.port = free_port()
        self.page_port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = secrets.token_urlsafe(40)
        self.log = self.scratch / "log"
        self._settings = {
            "PATH": os.environ.get("PATH", ""),
            "DATA_DIR": str(self.scratch / "data"),
            "API_PORT": str(self.port),
            "METRICS_PORT": "0",
            "API_KEY": self.key,
            "DOCKER_HOST": self._docker,
            "AGENT_BINARY": agent,
            "DEFAULT_NETWORK": "none",
            "POOL_SIZE": "4g",
            "DEFAULT_DISK": "128m",
            "DEFAULT_MEMORY": "128m",
            # A scenario sends more requests than a user, and its webhooks go to the stage.
            "RATE_CREATES": "100000",
            "RATE_COMMANDS": "100000",
            "RATE_REQUESTS": "1000000",
            "WEBHOOK_ALLOW_PRIVATE": "true",
            "ALLOWED_ORIGINS": f"http://127.0.0.1:{self.page_port}",
            "STOP_GRACE": "1",
            "RUST_LOG": "info",
        }
        self._process: asyncio.subprocess.Process | None = None
        self._copying: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the server; returns when it is ready for requests."""
        self._process = await asyncio.create_subprocess_exec(
            binary(),
            env=self._settings,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C ends the command first, and the server after it.
            start_new_session=True,
        )
        listening = asyncio.Event()
        self._copying = asyncio.create_task(self._copy_log(listening))
        try:
            await asyncio.wait_for(listening.wait(), READY_SECONDS)
        except asyncio.TimeoutError:
            raise SystemExit(f"stage: the server does not listen after {READY_SECONDS} s") from None
        if self._process.returncode is not None or self._copying.done():
            raise SystemExit(f"stage: the server has ended:\n{self.log.read_text()[-2000:]}")

    async def _copy_log(self, listening: asyncio.Event) -> None:
        assert self._process and self._process.stderr
        try:
            with self.log.open("ab") as log:
                while line := await self._process.stderr.readline():
                    log.write(line)
                    log.flush()
                    if b'"message":"listening"' in line:
                        listening.set()
        finally:
            listening.set()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Sends a signal to the server, and waits for its end."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.send_signal(number)
        await self._process.wait()
        if self._copying:
            await self._copying
        self._process = None

    async def add_templates(self) -> None:
        """Creates a template for each image."""
        for name, image in self._images.items():
            await asyncio.to_thread(self._post, "/api/v1/templates", {"name": name, "image": image})

    def _post(self, path: str, body: object) -> None:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=READY_SECONDS):
            pass

    def errors(self) -> list[str]:
        """Returns the errors that the server has logged, except those of a restart."""
        if not self.log.exists():
            return []
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if '"level":"ERROR"' in line and "SHUTTING_DOWN" not in line]

    def remove(self) -> None:
        """Removes the containers, mounts and files of the server, which has ended."""
        for container in self._containers():
            self._engine("rm", "--force", "--volumes", container)
        for mount in reversed(_mounts_below(self.scratch)):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _containers(self) -> list[str]:
        """Returns the containers that mount a directory of this server."""
        names = self._engine("ps", "--all", "--quiet", "--filter", "label=elevo.server").split()
        mounts = {name: self._engine("inspect", "--format", "{{json .Mounts}}", name) for name in names}
        return [name for name, text in mounts.items() if str(self.scratch) in text]

    def _engine(self, *arguments: str) -> str:
        command = ["docker", "--host", self._docker, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _mounts_below(path: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split(" ")[1] for line in lines]
    return [point for point in points if Path(point).is_relative_to(path)]
