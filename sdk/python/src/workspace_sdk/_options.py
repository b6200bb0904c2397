"""Options that many methods have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from ._generated import models
    from ._values import Option, Ref


class Wait(TypedDict, total=False):
    """Options of every method."""

    deadline: float | None
    """Seconds until the caller stops waiting."""


class Call(Wait, total=False):
    """Options of a method that changes something."""

    idempotency_key: str | None
    """Name of the request: a repeated call with the same name has no second effect."""


class MergeOptions(Call, total=False):
    """Options of a merge."""

    message: str | None
    """Message for the history."""
    atomic: bool | None
    """Whether to land all changes or none."""
    dry_run: bool | None
    """Whether to report the result without landing."""
    renames: bool | None
    """Whether to follow files that were moved without other changes."""
    strategy: str | None
    """How to settle conflicts, if the policy lets the caller choose."""


class SandboxOptions(Call, total=False):
    """The fields of `CreateSandboxParams` as arguments."""

    template: str
    name: str | None
    project: Ref | None
    agent: Ref | None
    snapshot: Ref | None
    existing: Ref | None
    fork: Ref | None
    directory: str | None
    read_only: bool | None
    sync: models.Sync | Option
    envs: Mapping[str, str] | None
    metadata: Mapping[str, str] | None
    network: str | None
    on_expiry: str | None
    resources: models.Resources | Option
    runtime: str | None
    timeout_seconds: int | None
