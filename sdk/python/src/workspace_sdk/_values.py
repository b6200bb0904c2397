"""References to objects, and bodies of requests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol


class HasId(Protocol):
    """An object with an id, such as a sandbox or a snapshot."""

    @property
    def id(self) -> str:
        """The id."""
        ...


Ref = str | HasId
"""The id or name of an object, or the object itself."""

Option = Mapping[str, Any] | None
"""An object with the names of the API, such as `{"memory": "512m"}`."""


def ref(value: Ref) -> str:
    """Returns the id or name of an object."""
    return value if isinstance(value, str) else value.id


def ref_or_none(value: Ref | None) -> str | None:
    """Returns the id or name of an object, if there is one."""
    return None if value is None else ref(value)


def body_of(**values: Any) -> dict[str, Any]:
    """Returns a body without the values that are `None`. Names become camel case, and models objects."""
    return {camel(name): plain(value) for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    """Returns a value for JSON: a model as its object, with the names of the API."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def camel(name: str) -> str:
    """Returns `some_name` as `someName`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def random_id() -> str:
    """Returns a text that no other call returns."""
    return os.urandom(16).hex()
