"""The protocol of terminals: options, messages, and unacknowledged input."""

from __future__ import annotations

import base64
import json
import logging
from collections import deque
from typing import Any

# The package logs headers, and so the key, at the level DEBUG.
_silent = logging.Logger("workspace_sdk.socket")
_silent.disabled = True

SOCKET_OPTIONS: dict[str, Any] = {
    "logger": _silent,
    "compression": None,
    "max_size": 4 << 20,
    "open_timeout": 10,
    # A connection without a response to a ping is lost.
    "ping_interval": 15,
    "ping_timeout": 30,
    "subprotocols": ["elevo.pty.v1"],
}

MAX_OUTPUT = 16 << 20
"""Bytes of output that are kept while the caller only waits for the end; the oldest are discarded."""

MAX_INPUT = 32 << 10
"""Bytes of input in one message; the server accepts 64 KiB."""

MAX_UNACKNOWLEDGED = 32
"""Messages with input that may be on their way."""


class Unacknowledged:
    """Input that the terminal may not have. It is sent again after a reconnect; the terminal ignores repetitions."""

    def __init__(self) -> None:
        self._last = 0
        self._waiting: deque[tuple[int, str]] = deque()

    def has_room(self) -> bool:
        """Tells whether more input may be sent."""
        return len(self._waiting) < MAX_UNACKNOWLEDGED

    def add(self, data: bytes) -> str:
        """Gives input its number, and returns its message."""
        self._last += 1
        message = {"type": "input", "seq": self._last, "data": base64.b64encode(data).decode()}
        text = json.dumps(message)
        self._waiting.append((self._last, text))
        return text

    def acknowledge(self, sequence: int) -> None:
        """Removes the input that the terminal has."""
        while self._waiting and self._waiting[0][0] <= sequence:
            self._waiting.popleft()

    def messages(self) -> list[str]:
        """Returns the messages to send again."""
        return [text for _, text in self._waiting]
