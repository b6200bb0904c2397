#!/usr/bin/env python3
"""Prints the licences of the crates that are linked into `elevo`, with their texts.

    deploy/release/licences.py

Most of these licences ask that their text is part of a binary release. Equal texts are printed once,
with all the crates that have them. A crate without a text, such as a part of a larger repository, has
its licence's name only.
"""

import collections
import json
import pathlib
import subprocess

TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
NAMES = ("licen", "copying", "notice", "copyright", "unlicense")


def linked_packages() -> list[dict]:
    """The packages that the program depends on at run time, without those of this workspace."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    for target in TARGETS:
        command += ["--filter-platform", target]
    data = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    todo = [package["id"] for package in packages.values() if package["name"] in ("elevo-cli", "elevo-agent")]
    seen = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    linked = [packages[id] for id in seen if packages[id]["source"] is not None]
    return sorted(linked, key=lambda package: (package["name"], package["version"]))


def texts(package: dict) -> list[str]:
    """The licence files of a package, and of the libraries in C or C++ in its subdirectories."""
    directory = pathlib.Path(package["manifest_path"]).parent
    candidates = [*directory.glob("*"), *directory.glob("*/*")]
    files = [path for path in candidates if path.is_file() and path.name.lower().startswith(NAMES)]
    return [path.read_text(errors="replace").strip() for path in sorted(files)]


def main() -> None:
    packages = linked_packages()
    crates_of = collections.defaultdict(list)
    print("elevo contains these crates, under these licences:\n")
    for package in packages:
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license'] or 'see the text of its licence'}")
        for text in texts(package):
            crates_of[text].append(name)
    for text, crates in crates_of.items():
        print(f"\n{'=' * 80}\n{', '.join(crates)}\n{'-' * 80}\n\n{text}")


if __name__ == "__main__":
    main()
