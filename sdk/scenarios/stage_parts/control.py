"""The control of the stage: what scenarios ask of it over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import traceback
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from . import messages
from .faults import Fault
from .messages import Ended, Source
from .proxy import Proxy
from .server import Server


class Refused(Exception):
    """A command that the stage does not know, or whose body is wrong."""


class Control:
    """Listens for commands, and receives webhooks."""

    def __init__(self, server: Server, proxy: Proxy) -> None:
        self._server = server
        self._proxy = proxy
        self._hooks: list[list[int]] = []
        self._received: list[dict[str, Any]] = []
        self._restarting = asyncio.Lock()
        self.url = ""

    async def listen(self) -> None:
        """Accepts commands."""
        listener = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = Source(reader)
        try:
            head = await messages.read_head(source)
            pieces = [piece.data async for piece in messages.request_body(head, source)]
            status, value = await self._request(head, b"".join(pieces))
            headers = {"content-type": "application/json", "connection": "close"}
            writer.write(messages.simple_response(status, headers, json.dumps(value).encode()))
            await writer.drain()
        except (Ended, ConnectionError, asyncio.CancelledError):
            # The exchange is over; a cancellation is the end of the stage.
            pass
        finally:
            writer.close()

    async def _request(self, head: messages.Head, body: bytes) -> tuple[int, Any]:
        _, name, *rest = head.first[1].split("/")
        if name == "hook" and rest:
            return self._hook_arrived(int(rest[0]), head, body), {}
        command = getattr(self, f"do_{name}", None)
        if head.first[0] != "POST" or command is None:
            return 404, {"error": f"the stage has no command `{name}`; sdk/scenarios/README.md lists them"}
        try:
            return 200, await command(**json.loads(body or b"{}"))
        except (Refused, TypeError, ValueError) as error:
            return 400, {"error": f"{name}: {error}"}
        except Exception:
            return 500, {"error": traceback.format_exc()}

    async def do_restart(self, signal: str = "TERM") -> dict[str, Any]:
        """Stops the server by a signal, and starts it."""
        async with self._restarting:
            await self._server.stop(_signal(signal))
            # As with a server that does not run, connections are refused.
            self._proxy.pause()
            try:
                await self._server.start()
            finally:
                await self._proxy.listen()
        return {}

    async def do_fault(self, **fault: Any) -> dict[str, Any]:
        """Adds a fault."""
        self._proxy.faults.all.append(Fault(**fault))
        return {}

    async def do_reply(self, **reply: Any) -> dict[str, Any]:
        """Adds a fault that answers with a given response."""
        return await self.do_fault(kind="reply", **reply)

    async def do_clear(self) -> dict[str, Any]:
        """Removes all faults."""
        self._proxy.faults.all.clear()
        return {}

    async def do_scenario(self, name: str = "") -> dict[str, Any]:
        """Begins a scenario."""
        self._proxy.faults.all.clear()
        self._proxy.faults.seen.clear()
        self._received.clear()
        return {"name": name}

    async def do_seen(self, match: str = "") -> dict[str, Any]:
        """Returns the requests that match."""
        requests = [seen.as_json() for seen in self._proxy.faults.matching(match)]
        keys = {request["idempotencyKey"] for request in requests} - {None}
        return {"requests": requests, "count": len(requests), "keys": len(keys)}

    async def do_hits(self) -> dict[str, Any]:
        """Returns how often each fault has taken effect."""
        faults = [{"match": f.match, "kind": f.kind, "hits": f.hits, "left": f.times} for f in self._proxy.faults.all]
        return {"faults": faults, "count": sum(fault["hits"] for fault in faults)}

    async def do_hook(self, reply: int | list[int] = 200) -> dict[str, Any]:
        """Starts a receiver of webhooks. The last of several statuses repeats."""
        self._hooks.append(list(reply) if isinstance(reply, list) else [reply])
        return {"url": f"{self.url}/hook/{len(self._hooks) - 1}"}

    def _hook_arrived(self, number: int, head: messages.Head, body: bytes) -> int:
        replies = self._hooks[number]
        status = replies.pop(0) if len(replies) > 1 else replies[0]
        arrived = {"url": f"{self.url}/hook/{number}", "status": status, "headers": dict(head.headers)}
        self._received.append({**arrived, "body": body.decode(), "event": json.loads(body)})
        return status

    async def do_hooks(self, url: str | None = None) -> dict[str, Any]:
        """Returns the webhooks that arrived since the scenario began."""
        items = [item for item in self._received if url in (None, item["url"])]
        return {"items": items, "count": len(items)}

    async def do_fetch(self, url: str) -> dict[str, Any]:
        """Sends a GET request without a key, as the holder of a link does."""
        return await asyncio.to_thread(_fetch, url)

    async def do_processes(self, contains: str) -> dict[str, Any]:
        """Counts the processes of sandboxes whose command line contains a text."""
        return {"count": await asyncio.to_thread(_count_processes, contains)}


def _signal(name: str) -> signal.Signals:
    if name not in ("TERM", "KILL"):
        raise Refused(f"`signal` is `TERM` or `KILL`, not `{name}`")
    return signal.Signals[f"SIG{name}"]


def _fetch(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return {"status": response.status, "body": response.read().decode()}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": error.read().decode()}


def _count_processes(text: str) -> int:
    """A process of a sandbox has other ids inside than outside."""
    own = os.readlink("/proc/self/ns/pid")
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            count += text in arguments and os.readlink(process / "ns/pid") != own
        except OSError:
            # The process has ended.
            continue
    return count
