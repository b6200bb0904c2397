#!/usr/bin/env python3
"""Runs the code blocks of the book, each page with a server of its own.

    blocks.py [--elevo FILE] [--count] [PAGE...]

README.md in this directory describes the languages, and the comment for a block that does not run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The checkout stays free of caches.
sys.dont_write_bytecode = True

import pages
from fences import Block, blocks
from pages import ROOT
from place import TIMEOUT_SECONDS, Place
from steps import RUN, SHOWN, Step, agrees, problem, script, starts_server, steps

# The pages mostly wait for their servers.
PAGES_AT_A_TIME = 3


def main() -> int:
    """Returns the exit code: 1 if a block fails, or has neither a language that runs nor a reason."""
    parser = argparse.ArgumentParser(description="Runs the code blocks of the book.")
    parser.add_argument("--elevo", type=Path, metavar="FILE", help="the program `elevo`; default: the debug build")
    parser.add_argument("--count", action="store_true", help="only count the blocks, and check those of data")
    parser.add_argument("page", nargs="*", metavar="PAGE", help="pages, such as guides/reviews.md; default: all")
    arguments = parser.parse_args()
    elevo = arguments.elevo or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/elevo"
    book = {page.path: blocks(page) for page in pages.read(arguments.page)}
    failures = [f"{block.line.place}: {why}" for all_ in book.values() for block in all_ if (why := problem(block))]
    if not failures and not arguments.count:
        failures = run_all(book, elevo.resolve())
    for failure in failures:
        print(failure, file=sys.stderr)
    print(summary(book))
    return 1 if failures else 0


def summary(book: dict[str, list[Block]]) -> str:
    """Returns the numbers of blocks."""
    found = [block for all_ in book.values() for block in all_ if not block.hidden]
    elsewhere = sum(block.reason is not None and block.reason.is_test for block in found)
    reasons = sum(block.reason is not None for block in found) - elsewhere
    shown = sum(not block.reason and block.language in SHOWN for block in found)
    run = len(found) - elsewhere - reasons - shown
    return (
        f"{len(found)} blocks on {len(book)} pages: {run} run here, {elsewhere} run by other tests, "
        f"{reasons} not run, with a reason, {shown} output"
    )


def run_all(book: dict[str, list[Block]], elevo: Path) -> list[str]:
    """Runs the pages; returns the failures."""
    with ThreadPoolExecutor(PAGES_AT_A_TIME) as pool:
        types = pool.submit(check_types, book)
        results = list(pool.map(lambda name: run_page(name, book[name], elevo), book))
        return types.result() + [failure for result in results for failure in result]


def check_types(book: dict[str, list[Block]]) -> list[str]:
    """Checks the types of all programs in TypeScript, because Node.js does not."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for page, all_ in book.items():
            for block in all_:
                if block.language == "ts" and not block.reason:
                    file = scratch / f"{page.replace('/', '-')}-{block.line.number}.ts"
                    file.write_text(block.text)
        if not list(scratch.iterdir()):
            return []
        link_packages(scratch)
        settings = (ROOT / "examples/tsconfig.json").read_text().replace("*/main.ts", "*.ts")
        (scratch / "tsconfig.json").write_text(settings)
        compiler = package() / "node_modules/typescript/bin/tsc"
        node = os.environ.get("ELEVO_NODE", "node")
        done = subprocess.run([node, compiler, "--project", scratch], capture_output=True, text=True, check=False)
        return [f"types of the blocks (PAGE-LINE.ts):\n{done.stdout}{done.stderr}"] if done.returncode else []


def package() -> Path:
    """Returns the directory of the built package for TypeScript."""
    return Path(os.environ.get("ELEVO_TS_PACKAGE", ROOT / "sdk/typescript")).resolve()


def link_packages(directory: Path) -> None:
    """Lets programs in a directory import the SDK for TypeScript."""
    modules = directory / "node_modules"
    (modules / "@elevo").mkdir(parents=True)
    (modules / "@elevo/workspace-sdk").symlink_to(package())
    (modules / "@types").symlink_to(package() / "node_modules/@types")
    (directory / "package.json").write_text('{"type": "module"}\n')


def run_page(name: str, found: list[Block], elevo: Path) -> list[str]:
    """Runs the blocks of a page in order; returns the failures."""
    if not any(block.language in RUN and not block.reason for block in found):
        return []
    started = time.monotonic()
    place = Place(elevo)
    try:
        link_packages(place.programs)
        all_steps = list(steps(found, place.programs))
        place.up()
        if starts_server(all_steps):
            place.stop_server()
        failures = run_steps(all_steps, place)
    finally:
        place.down()
    print(f"{name}: {'failed' if failures else 'passed'} in {time.monotonic() - started:.1f} s", flush=True)
    return failures


def run_steps(all_steps: list[Step], place: Place) -> list[str]:
    """Runs the steps in one shell; returns the failures."""
    shell = subprocess.Popen(
        ["bash", "-c", script(all_steps, place.outputs)],
        env=place.environment,
        cwd=place.directory,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, error = shell.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        error = f"the page takes more than {TIMEOUT_SECONDS} s\n"
    finally:
        # A block may leave a command in the background.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    code = shell.wait()
    failures = []
    outputs = sorted(place.outputs.iterdir(), key=lambda file: int(file.name))
    for file in outputs:
        step, output = all_steps[int(file.name)], file.read_text(errors="replace")
        is_last = file == outputs[-1]
        if is_last and code != 0:
            failures.append(f"{step.block.line.place}: `{step.command.strip()}` failed ({code}):\n{output}{error}")
        elif not agrees(step.shown, output):
            shown = "\n".join(step.shown)
            failures.append(f"{step.block.line.place}: `{step.command}` prints\n{output}but the page shows\n{shown}\n")
    if code != 0 and not outputs:
        failures.append(f"{all_steps[0].block.line.place}: the shell cannot read the blocks of the page:\n{error}")
    return failures


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pages.Wrong as error:
        sys.exit(f"blocks: {error}")
