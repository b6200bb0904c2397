#!/usr/bin/env python3
"""Records the terminal session of the README with a real server, or checks that it is still true.

    record.py [--check] [--elevo FILE]

The recording is session.svg. `--check` runs the same commands and compares what they print with it;
ids, hashes and times may differ. `scripts/recording` calls this program.
"""

from __future__ import annotations

import argparse
import difflib
import os
import pty
import re
import sys
from pathlib import Path

# The checkout stays free of caches.
sys.dont_write_bytecode = True

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "docs/book/tools"))

from place import Place

import render

COLUMNS = 100
RECORDING = HERE / "session.svg"

# Each command with its exit code. {review} is the review that an earlier command printed.
SESSION = [
    ("elevo project create site --from ~/site", 0),
    ("for name in ada bob; do elevo agent create $name; done", 0),
    ("elevo sandbox create busybox --project site --agent ada --name ada", 0),
    ("elevo sandbox create busybox --project site --agent bob --name bob", 0),
    ("elevo exec ada -- 'echo \"Welcome to our site.\" > page.md'", 0),
    ("elevo sandbox fork bob --name try", 0),
    ('elevo exec try -- \'echo "Hello and welcome." > page.md; echo "# Questions" > faq.md\'', 0),
    ('elevo ws merge ada -m "our site"', 0),
    ('elevo ws merge try -m "questions"', 8),
    ('elevo review accept {review} --take workspace -m "friendlier"', 0),
    ("elevo project log site", 0),
    ("elevo project blame site page.md", 0),
]

# The parts of the output that differ from run to run.
VARYING = [
    (re.compile(r"\b(prj|sbx|agt|ws|rev)-[a-z0-9]+"), r"\1-…"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "…"),
    (re.compile(r"\d+ seconds? ago"), "… ago"),
    (re.compile(r" +"), " "),
]


def main() -> int:
    """Returns the exit code: 1 if the recording is stale."""
    parser = argparse.ArgumentParser(description="Records the terminal session of the README.")
    parser.add_argument("--check", action="store_true", help="only compare the recording with a new session")
    parser.add_argument("--elevo", type=Path, metavar="FILE", help="the program `elevo`; default: the debug build")
    arguments = parser.parse_args()
    elevo = arguments.elevo or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/elevo"
    recording = render.svg(record(elevo.resolve()), COLUMNS)
    if not arguments.check:
        RECORDING.write_text(recording)
        return 0
    old, new = (fixed(render.lines(file, COLUMNS)) for file in (RECORDING.read_text(), recording))
    for line in difflib.unified_diff(old, new, "docs/recording/session.svg", "a new session", lineterm=""):
        print(line, file=sys.stderr)
    if old != new:
        print("record: the recording is stale: run scripts/recording, and look at it", file=sys.stderr)
    return int(old != new)


def fixed(lines: list[str]) -> list[str]:
    """Returns the lines without the parts that differ from run to run."""
    for pattern, replacement in VARYING:
        lines = [pattern.sub(replacement, line) for line in lines]
    return lines


def record(elevo: Path) -> list[render.Step]:
    """Runs the session with a new server; returns the commands and their output."""
    place = Place(elevo)
    try:
        place.up()
        site = Path(place.environment["HOME"]) / "site"
        site.mkdir()
        (site / "page.md").write_text("Welcome.\n")
        steps: list[render.Step] = []
        for command, expected in SESSION:
            reviews = re.findall(r"rev-[a-z0-9]+", "".join(step.output for step in steps))
            command = command.replace("{review}", reviews[-1] if reviews else "")
            output, code = run_in_terminal(command, place)
            if code != expected:
                raise SystemExit(f"record: `{command}` ended with {code} instead of {expected}:\n{output}")
            steps.append(render.Step(command, output))
        return steps
    finally:
        place.down()


def run_in_terminal(command: str, place: Place) -> tuple[str, int]:
    """Runs a command in a pseudo-terminal, so that it prints what a person sees; returns its output and exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place.directory)
        environment = {**place.environment, "TERM": "xterm-256color"}
        os.execvpe("bash", ["bash", "-c", f"stty cols {COLUMNS}; {command}"], environment)
    output = b""
    # The end of a terminal is an error on Linux.
    try:
        while piece := os.read(terminal, 65536):
            output += piece
    except OSError:
        pass
    os.close(terminal)
    return output.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
