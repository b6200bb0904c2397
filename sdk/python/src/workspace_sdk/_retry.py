"""Decides whether and when a request is sent again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ._errors import ServerUnreachableError, WorkspaceError

LONGEST_WAIT = 60.0
"""Seconds that the client waits at most because of `Retry-After`."""


@dataclass(frozen=True)
class RetryPolicy:
    """The pauses between the attempts of a request."""

    retries: int = 3
    delay: float = 1.0
    backoff: float = 2.0
    random: Callable[[], float] = random.random

    def pause(self, error: WorkspaceError, attempt: int, *, repeatable: bool) -> float | None:
        """Returns the seconds to wait after a failed attempt, counted from 1; `None` to raise the error.

        A request is repeatable if it has an idempotency key or changes nothing, and its body can be sent again.
        """
        if attempt > self.retries or not self._may_repeat(error, repeatable):
            return None
        after = retry_after(error)
        if after is not None:
            return min(after, LONGEST_WAIT)
        # Half of the pause is random, so that clients that failed together do not return together.
        pause = self.delay * self.backoff ** (attempt - 1)
        return pause / 2 + pause / 2 * self.random()

    @staticmethod
    def _may_repeat(error: WorkspaceError, repeatable: bool) -> bool:
        # Nothing of the body was read for a connection that was refused; any other attempt may have used it up.
        return isinstance(error, ServerUnreachableError) or (repeatable and error.retry in ("later", "unknown"))


def retry_after(error: WorkspaceError) -> float | None:
    """Returns the seconds in the header `Retry-After` of an error."""
    text = error.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


@dataclass
class Patience:
    """The pauses while a stream has lost its connection: doubled each time, for a limited time."""

    now: Callable[[], float]
    limit: float = 60.0
    has_connected: bool = False
    """Whether there was a connection."""
    _since: float | None = None
    _pause: float = 0.0

    def reset(self) -> None:
        """Ends the period without a connection."""
        self.has_connected = True
        self._since = None

    def next(self) -> float | None:
        """Returns the seconds to wait before the next attempt; `None` if the time is over."""
        now = self.now()
        if self._since is None:
            self._since, self._pause = now, 0.05
        self._pause = min(self._pause * 2, 5.0)
        return self._pause if now + self._pause - self._since <= self.limit else None
