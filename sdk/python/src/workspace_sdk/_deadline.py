"""The time until which a caller waits."""

from __future__ import annotations

import time

from ._errors import RequestTimeoutError


class Deadline:
    """A point in time, or none."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def __bool__(self) -> bool:
        return self._end is not None

    def remaining(self) -> float | None:
        """Returns the seconds until the deadline, at least 0; `None` if there is none."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def has_passed(self) -> bool:
        """Tells whether the deadline has passed."""
        return self.remaining() == 0.0

    def error(self) -> RequestTimeoutError:
        """Returns the error for a call that did not end in time."""
        return RequestTimeoutError(
            f"the call did not end within its deadline of {self._seconds:g} s",
            remediation="Set a later `deadline`, or start the command and attach to it.",
        )


NEVER = Deadline(None)
"""No deadline."""
