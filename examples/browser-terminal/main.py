"""Serves a page with a terminal in a sandbox. The key stays here: the page gets tickets."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from workspace_sdk.sync import WorkspaceClient

PORT = int(os.environ.get("PORT", "3000"))
PAGE = Path(__file__).with_name("index.html").read_bytes()


class Backend(BaseHTTPRequestHandler):
    """Responds to the requests of the page."""

    def do_GET(self) -> None:
        """Sends the page."""
        self.respond("text/html", PAGE)

    def do_POST(self) -> None:
        """Sends the address of the terminal with a ticket."""
        # Ask here whether this visitor may use this terminal.
        ticket = box.pty.ticket(terminal.id)
        self.respond("application/json", json.dumps({"url": ticket.url}).encode())

    def respond(self, kind: str, body: bytes) -> None:
        """Sends a response with a body."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: Any) -> None:
        """Logs no requests."""


with (
    WorkspaceClient() as client,
    client.sandbox.create(template=os.environ.get("ELEVO_TEMPLATE", "base"), timeout_seconds=3600) as box,
    # The page is simple: a shell without colours suits it.
    box.pty.create(cols=80, rows=24, shell="/bin/sh", envs={"TERM": "dumb", "PS1": "$ "}) as terminal,
    ThreadingHTTPServer(("127.0.0.1", PORT), Backend) as backend,
):
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    print(f"open http://127.0.0.1:{PORT}/ and type; exit ends the example", flush=True)

    print(f"the shell has ended with exit code {terminal.wait().exit_code}")
    backend.shutdown()
