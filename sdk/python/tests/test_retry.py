"""The times of retries, with an injected clock."""

from __future__ import annotations

import pytest

from workspace_sdk._deadline import Deadline
from workspace_sdk._retry import Patience, RetryPolicy
from workspace_sdk.errors import (
    ConnectionLostError,
    OverloadedError,
    RequestTimeoutError,
    SandboxNotFoundError,
    ServerUnreachableError,
    StorageFailedError,
    WorkspaceError,
)

LATER = OverloadedError("busy", retry="later")
UNKNOWN = StorageFailedError("failed", retry="unknown")


@pytest.mark.parametrize(("random", "expected"), [(0.0, [0.5, 1.0, 2.0, None]), (1.0, [1.0, 2.0, 4.0, None])])
def test_pauses_double_and_half_of_each_is_random(random: float, expected: list[float | None]) -> None:
    policy = RetryPolicy(random=lambda: random)
    assert [policy.pause(LATER, attempt, repeatable=True) for attempt in (1, 2, 3, 4)] == expected


@pytest.mark.parametrize(
    ("error", "repeatable", "once"),
    [
        (ServerUnreachableError("refused"), True, True),
        (LATER, True, False),
        (ConnectionLostError("lost", retry="unknown"), True, False),
        (UNKNOWN, True, False),
        (RequestTimeoutError("slow", retry="unknown"), True, False),
        (Deadline(0).error(), False, False),
        (SandboxNotFoundError("gone"), False, False),
        (OverloadedError("full", retry="afterChange"), False, False),
        (OverloadedError("new", retry="perhaps"), False, False),
    ],
)
def test_an_error_is_retried_if_that_helps(error: WorkspaceError, repeatable: bool, once: bool) -> None:
    policy = RetryPolicy()
    assert (policy.pause(error, 1, repeatable=True) is not None) is repeatable
    assert (policy.pause(error, 1, repeatable=False) is not None) is once


@pytest.mark.parametrize(("header", "expected"), [("3", 3.0), ("0", 0.0), ("600", 60.0), ("soon", 1.0)])
def test_retry_after_decides_up_to_a_minute(header: str, expected: float) -> None:
    error = OverloadedError("busy", retry="later", headers={"retry-after": header})
    assert RetryPolicy(random=lambda: 1.0).pause(error, 1, repeatable=True) == expected


def test_a_lost_stream_is_opened_again_for_a_minute_after_each_loss() -> None:
    now = 1000.0
    patience = Patience(lambda: now)
    for _ in range(2):
        pauses = []
        while (pause := patience.next()) is not None:
            pauses.append(pause)
            now += pause
        assert pauses[:3] == [0.1, 0.2, 0.4]
        assert max(pauses) == 5.0
        assert 55 < sum(pauses) <= 60
        patience.reset()
