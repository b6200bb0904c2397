"""Faults that scenarios inject, and the requests that the proxy has seen."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

from .messages import Head

KINDS = ("cut", "delay", "status", "reply")


class Cut(Exception):
    """A fault has closed the connection."""


@dataclass
class Fault:
    """A fault for the next requests that match."""

    match: str
    kind: str
    at: int = 0
    part: str = "all"
    side: str = "response"
    ms: int = 0
    status: int = 503
    forward: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    times: int = 1
    hits: int = 0

    def __post_init__(self) -> None:
        re.compile(self.match)
        for name in ("at", "ms", "status", "times"):
            setattr(self, name, int(getattr(self, name)))
        if self.kind not in KINDS:
            raise ValueError(f"`{self.kind}` is not a kind of fault; the kinds are {', '.join(KINDS)}")
        if self.side not in ("request", "response"):
            raise ValueError(f"`side` is `request` or `response`, not `{self.side}`")
        if self.part not in ("all", "body"):
            raise ValueError(f"`part` is `all` or `body`, not `{self.part}`")

    @property
    def answers(self) -> bool:
        """Returns whether the proxy answers in place of the server."""
        return self.kind in ("status", "reply")


@dataclass
class Seen:
    """A request that the proxy has received."""

    method: str
    path: str
    idempotency_key: str | None
    status: int | None = None
    fault: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns the form that scenarios see."""
        return {
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "idempotencyKey": self.idempotency_key,
            "fault": self.fault,
        }


class Faults:
    """The faults and the requests since the scenario began."""

    def __init__(self) -> None:
        self.all: list[Fault] = []
        self.seen: list[Seen] = []

    def begin(self, head: Head) -> tuple[Seen, Fault | None]:
        """Records a request; returns the fault that it gets."""
        method, path = head.first[0], head.first[1]
        seen = Seen(method, path, head.get("idempotency-key"))
        self.seen.append(seen)
        for fault in self.all:
            if fault.times > 0 and re.match(fault.match, f"{method} {path}"):
                fault.times -= 1
                return seen, fault
        return seen, None

    def matching(self, pattern: str) -> list[Seen]:
        """Returns the requests that match a regular expression from the start."""
        return [seen for seen in self.seen if re.match(pattern, f"{seen.method} {seen.path}")]


class Outlet:
    """The bytes that leave on one side of an exchange; a fault takes effect at its position."""

    def __init__(self, writer: asyncio.StreamWriter, fault: Fault | None, seen: Seen) -> None:
        self._writer = writer
        self._fault = fault
        self._seen = seen
        self._sent = 0
        self._at = fault.at if fault else 0

    async def head(self, raw: bytes) -> None:
        """Sends the head of a message."""
        if self._fault and self._fault.part == "body":
            self._at += len(raw)
        await self.send(raw)

    async def send(self, raw: bytes) -> None:
        """Sends bytes up to the position of the fault, has its effect, and sends the rest."""
        fault, before = self._fault, self._at - self._sent
        if not fault or before >= len(raw):
            await self._write(raw)
            return
        self._fault = None
        await self._write(raw[:before])
        fault.hits += 1
        self._seen.fault = fault.kind
        if fault.kind == "cut":
            raise Cut
        await asyncio.sleep(fault.ms / 1000)
        await self._write(raw[before:])

    async def _write(self, raw: bytes) -> None:
        self._sent += len(raw)
        if raw:
            self._writer.write(raw)
            await self._writer.drain()
