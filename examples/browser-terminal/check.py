#!/usr/bin/env python3
"""Opens the page in headless Chromium, types into the terminal, and prints the screen.

    check.py URL

Needs the package `chromium-headless-shell` of Debian.
"""

import json
import subprocess
import sys
import tempfile
import time
from typing import Any

from websockets.sync.client import ClientConnection, connect

OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
OPTIONS += ["--disable-background-networking", "--remote-debugging-port=0"]
PATIENCE = 30


class Page:
    """A page in a browser, controlled by the DevTools protocol."""

    def __init__(self, socket: ClientConnection, url: str) -> None:
        self._socket = socket
        self._calls = 0
        self._session: dict[str, str] = {}
        target = self.call("Target.createTarget", url=url)["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def call(self, method: str, **params: Any) -> Any:
        """Returns the result of a call."""
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": params, **self._session}))
        while (message := json.loads(self._socket.recv(PATIENCE))).get("id") != self._calls:
            pass
        if "error" in message:
            raise SystemExit(f"{method} failed: {message['error']['message']}")
        return message["result"]

    def screen(self) -> str:
        """Returns the text in the terminal."""
        expression = "document.getElementById('screen')?.textContent ?? ''"
        return str(self.call("Runtime.evaluate", expression=expression)["result"]["value"])

    def wait_for(self, end: str) -> None:
        """Waits until the text in the terminal ends so."""
        deadline = time.monotonic() + PATIENCE
        while not self.screen().endswith(end):
            if time.monotonic() > deadline:
                raise SystemExit(f"the terminal does not end with {end!r}: {self.screen()!r}")
            time.sleep(0.05)

    def type(self, text: str) -> None:
        """Presses a key for each character, and Enter."""
        for character in text:
            self.press(key=character, text=character)
        self.press(key="Enter", text="\r")

    def press(self, **key: str) -> None:
        """Presses one key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **key)


def browser_address(browser: subprocess.Popen[str]) -> str:
    """Returns the address at which the browser accepts calls."""
    assert browser.stderr
    for line in browser.stderr:
        if line.startswith("DevTools listening on "):
            return line.split()[-1]
    raise SystemExit("chromium-headless-shell has ended before it listened")


def use(page: Page) -> None:
    """Uses the terminal, also after a lost connection."""
    page.wait_for("$ ")
    page.type("echo $((40 + 2))")
    page.wait_for("42\n$ ")
    page.call("Runtime.evaluate", expression="socket.close()")
    page.type("echo again")
    page.wait_for("again\n$ ")
    page.type("exit")
    page.wait_for("[the terminal has ended]\n")


def main() -> None:
    """Starts the browser, and ends it."""
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium-headless-shell", *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        browser = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            with connect(browser_address(browser), max_size=None) as socket:
                page = Page(socket, sys.argv[1])
                use(page)
                print(page.screen(), end="")
        finally:
            browser.kill()
            browser.wait()


main()
