"""Receives events by HTTP: verifies the signature, responds, and handles each event once.

The example creates a webhook for itself, causes an event, and has the server send it twice.
"""

import base64
import os
import queue
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from workspace_sdk.errors import WebhookSignatureError
from workspace_sdk.sync import WorkspaceClient, verify_webhook

SECRET = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()

# Events are handled later, because the server sends an event again if it gets no response within some seconds.
events: queue.Queue[Any] = queue.Queue()


class Receiver(BaseHTTPRequestHandler):
    """Responds to the requests of a webhook."""

    def do_POST(self) -> None:
        """Accepts an event of the server."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            # The signature is that of the body as it arrived, so the body is not parsed before.
            events.put(verify_webhook(body, dict(self.headers), SECRET))
            self.send_response(204)
        except WebhookSignatureError:
            print("rejected a request without a valid signature")
            self.send_response(401)
        self.end_headers()

    def log_message(self, format: str, *_: Any) -> None:
        """Logs no requests: the example prints events."""


def handle(client: WorkspaceClient, webhook: str) -> None:
    """Prints each event once. Returns when an event has arrived twice."""
    seen = set()  # A service keeps the ids in its database.
    while (event := events.get()).id not in seen:
        seen.add(event.id)
        print(f"received {event.kind}: step {event.data.step} of {event.data.project}")
        client.webhooks.replay(webhook, event.id)
    print(f"ignored {event.kind}, which arrived again")


with (
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Receiver) as receiver,
    WorkspaceClient() as client,
):
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    # The server must reach this address. On loopback, it needs the setting WEBHOOK_ALLOW_PRIVATE=true.
    url = os.environ.get("HOOK_URL", f"http://127.0.0.1:{receiver.server_port}/")

    webhook = client.webhooks.create(url=url, kinds=["project.landed"], secret=SECRET)
    project = client.projects.create(name=f"webhook-{time.time_ns()}")
    try:
        # This request does not come from the server.
        httpx.post(url, json={"id": 1, "kind": "project.landed"})
        project.apply(files=[{"path": "page.md", "content": "# Page\n"}])
        handle(client, webhook.id)
    finally:
        client.webhooks.delete(webhook.id)
        project.delete()
        receiver.shutdown()
