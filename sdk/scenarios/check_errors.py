#!/usr/bin/env python3
"""Fails if a code of `openapi/errors.json` has no scenario that raises it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "errors-recorded.yaml"
EXPECTED = re.compile(r"error: \{class: (\w+), code: (\d+), name: (\w+), status: (\d+), retry: (\w+)")


def expected(path: Path) -> dict[int, tuple[str, ...]]:
    """Returns the complete errors that the scenarios of a file expect, by their codes."""
    found = EXPECTED.findall(path.read_text())
    return {int(code): (error_class, name, status, retry) for error_class, code, name, status, retry in found}


def main() -> int:
    """Prints what is missing or wrong; returns the exit code."""
    table = json.loads((HERE / "../../openapi/errors.json").read_text())["errors"]
    codes = {e["code"]: (e["class"], e["name"], str(e["status"]), e["retry"]) for e in table}
    recorded = expected(RECORDED)
    raised: dict[int, tuple[str, ...]] = {}
    for path in HERE.glob("*.yaml"):
        if path != RECORDED:
            raised.update(expected(path))
    listed = {int(code) for code in re.findall(r"^\| (\d{4}) \|", (HERE / "README.md").read_text(), re.MULTILINE)}

    problems = [f"{code} has no scenario" for code in codes.keys() - recorded.keys() - raised.keys()]
    problems += [
        f"{code} is raised by the server, so its recorded response can go" for code in recorded.keys() & raised.keys()
    ]
    problems += [f"{code} is not in the list of README.md" for code in recorded.keys() - listed]
    problems += [f"{code} is in the list of README.md without a recorded response" for code in listed - recorded.keys()]
    for code, error in (recorded | raised).items():
        if codes.get(code) != error:
            problems.append(f"{code} is {codes.get(code)} in openapi/errors.json, but the scenario expects {error}")
    for problem in sorted(problems):
        print(f"check_errors: {problem}", file=sys.stderr)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
