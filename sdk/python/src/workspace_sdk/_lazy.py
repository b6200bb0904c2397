"""Modules that are imported when they are first used, so that the import of the package is fast."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from websockets import exceptions as socket_errors

    from ._generated import models

__all__ = ["asyncio", "models", "socket_errors"]


class LazyModule:
    """Stands for a module until one of its names is needed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    asyncio = LazyModule("asyncio")
    models = LazyModule("workspace_sdk._generated.models")
    socket_errors = LazyModule("websockets.exceptions")
