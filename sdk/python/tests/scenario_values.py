"""Values of scenarios: insertion of variables, names in Python, and matching."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

TIMES = ("timeout", "deadline", "retryDelay")
KEYWORDS = ("from", "import")


class Mismatch(AssertionError):
    """A value differs from the expected one."""


def snake(name: str) -> str:
    """Returns `someName` as `some_name`."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return f"{name}_" if name in KEYWORDS else name


def python_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options with their names in Python, and times in seconds."""
    return {snake(name): value / 1000 if name in TIMES else value for name, value in options.items()}


def read(value: Any, name: str) -> Any:
    """Returns a field of an object, a key of a map, or an item of a list. A field that is missing is `None`."""
    if isinstance(value, Mapping):
        return value.get(name)
    if isinstance(value, list) and name.isdigit():
        return value[int(name)]
    return getattr(value, snake(name), None)


def insert(value: Any, variables: Mapping[str, Any]) -> Any:
    """Returns a value with each `${x.y}` replaced by the variable."""
    if isinstance(value, Mapping):
        return {name: insert(item, variables) for name, item in value.items()}
    if isinstance(value, list):
        return [insert(item, variables) for item in value]
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"\$\{([\w.]+)\}", value)
    if whole:
        return find(whole[1], variables)
    return re.sub(r"\$\{([\w.]+)\}", lambda found: str(find(found[1], variables)), value)


def find(path: str, variables: Mapping[str, Any]) -> Any:
    """Returns the variable at a path such as `box.id`."""
    first, *rest = path.split(".")
    if first not in variables:
        raise Mismatch(f"there is no variable `{first}`")
    value = variables[first]
    for name in rest:
        value = read(value, name)
    return value


def match(value: Any, expected: Any, where: str = "the value") -> None:
    """Raises `Mismatch` if a value does not match."""
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(expected, Mapping):
        return match_map(value, expected, where)
    if isinstance(expected, list):
        items = list(value) if value is not None else []
        if len(items) != len(expected):
            raise Mismatch(f"{where} has {len(items)} items, not {len(expected)}: {short(items)}")
        for number, (item, wanted) in enumerate(zip(items, expected, strict=True)):
            match(item, wanted, f"{where}[{number}]")
        return None
    if expected == "$any":
        matches = value is not None
    elif isinstance(expected, str) and expected.startswith("~"):
        matches = isinstance(value, str) and re.search(expected[1:], value) is not None
    else:
        matches = type(value) is type(expected) and value == expected
    if not matches:
        raise Mismatch(f"{where} is {short(value)}, not {short(expected)}")
    return None


def match_map(value: Any, expected: Mapping[str, Any], where: str) -> None:
    """Matches each field, and each operator such as `$length`."""
    for name, wanted in expected.items():
        if name == "$length":
            match(len(value), wanted, f"the length of {where}")
        elif name == "$contains":
            if not any(matches(item, wanted) for item in value):
                raise Mismatch(f"{where} does not contain {short(wanted)}: {short(value)}")
        elif name == "$not":
            if matches(value, wanted):
                raise Mismatch(f"{where} matches {short(wanted)}")
        elif name in ("$atLeast", "$atMost"):
            if value < wanted if name == "$atLeast" else value > wanted:
                raise Mismatch(f"{where} is {value}, which is not {name[1:]} {wanted}")
        else:
            match(read(value, name), wanted, f"{where}.{name}")


def matches(value: Any, expected: Any) -> bool:
    """Tells whether a value matches."""
    try:
        match(value, expected)
    except Mismatch:
        return False
    return True


def short(value: Any) -> str:
    """Returns a value as text that fits into a message."""
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}…"
