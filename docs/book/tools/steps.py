"""The steps that the blocks of a page become, and the shell script that runs them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fences import Block, Reason
from pages import ROOT

# Blocks in these languages show output or a shape; they are not programs.
SHOWN = {"text"}
# Blocks in these languages become steps of the script of their page.
RUN = {"sh", "console", "python", "ts", "toml"}
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[a-zA-Z]")


@dataclass(frozen=True)
class Step:
    """A command of the script of a page, with the output that the page shows for it."""

    block: Block
    command: str
    shown: tuple[str, ...] = ()


def steps(blocks: list[Block], programs: Path) -> Iterator[Step]:
    """Returns the steps of the blocks that run; writes programs and files into a directory."""
    for number, block in enumerate(blocks):
        if block.reason or block.language in SHOWN:
            continue
        file = programs / f"{number}.{block.language}"
        if block.language in ("python", "ts", "toml"):
            file.write_text(block.text)
        match block.language:
            case "sh":
                yield Step(block, block.text)
            case "console":
                yield from _commands(block)
            case "python":
                yield Step(block, f'"$ELEVO_PYTHON" {file}')
            case "ts":
                yield Step(block, f'"$ELEVO_NODE" {file}')
            case "toml":
                # The environment of the page would override the settings of the block.
                yield Step(block, f'env -i PATH="$PATH" elevo server config check --config {file}')


def problem(block: Block) -> str | None:
    """Returns why a block is wrong, of those mistakes that are seen without running it."""
    if block.reason:
        return _missing_test(block.reason)
    if block.language in SHOWN:
        return None
    try:
        match block.language:
            case "sh" | "console" | "python" | "ts":
                pass
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
            case "yaml":
                return _yaml_problem(block.text)
            case "":
                return "the block has no language; name one, or use `text` for output"
            case _:
                return f"`{block.language}` blocks are not run; say why in a comment before it: <!-- not run: … -->"
    except ValueError as error:
        return f"invalid {block.language}: {error}"
    return None


def _yaml_problem(text: str) -> str | None:
    # Only pages with YAML need this package, which Python does not have by itself.
    import yaml

    try:
        list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        return f"invalid yaml: {error}"
    return None


def _missing_test(reason: Reason) -> str | None:
    if reason.is_test and not (ROOT / reason.text).is_file():
        return f"there is no test {reason.text}"
    return None


def _commands(block: Block) -> Iterator[Step]:
    """Returns the commands of a `console` block, each with the lines below it."""
    command: list[str] = []
    shown: list[str] = []
    for line in block.text.splitlines():
        if command and command[-1].endswith("\\"):
            command.append(line)
        elif line.startswith("$ "):
            if command:
                yield Step(block, "\n".join(command), tuple(shown))
            command, shown = [line[2:]], []
        else:
            shown.append(line)
    if command:
        yield Step(block, "\n".join(command), tuple(shown))


def starts_server(all_steps: list[Step]) -> bool:
    """Returns whether the first command of the page starts the server."""
    first = next((match for step in all_steps if (match := re.search(r"\belevo (\w+)", step.command))), None)
    return first is not None and first[1] == "up"


def script(all_steps: list[Step], outputs: Path) -> str:
    """Returns the script of a page, which runs the steps in one shell.

    A file for each step gets its output; the last file is that of the step that has failed.
    """
    lines = ["set -euo pipefail"]
    for number, step in enumerate(all_steps):
        group = ["{", step.command.rstrip("\n"), f"}} >{outputs}/{number} 2>&1 </dev/null"]
        if step.block.fails:
            group = [f"if {group[0]}", *group[1:], f"then echo 'did not fail' >>{outputs}/{number}; exit 1; fi"]
        lines += group
    return "\n".join(lines) + "\n"


def agrees(shown: tuple[str, ...], output: str) -> bool:
    """Returns whether a page shows the output; `…` stands for any text, and alone for any lines."""
    if not any(line.strip() for line in shown):
        return True
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line.strip() == "…" else re.escape(line.rstrip()).replace("…", r"[^\n]*") + r"[ \t]*\n"
        for line in shown
    )
    text = _ESCAPES.sub("", output)
    return re.fullmatch(pattern, text if text.endswith("\n") else text + "\n") is not None
