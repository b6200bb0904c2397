"""Packs and unpacks directories as tar archives."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import IO


def pack(directory: str | os.PathLike[str], file: IO[bytes]) -> None:
    """Writes the files below a directory as a tar, with paths relative to it."""
    root = Path(directory)
    if not root.is_dir():
        raise NotADirectoryError(f"`{root}` is not a directory")
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path in sorted(root.iterdir()):
            archive.add(path, arcname=path.name, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Removes the owner, who does not exist in the sandbox."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(file: IO[bytes], directory: str | os.PathLike[str]) -> None:
    """Extracts a tar into a directory. Refuses members that would leave the directory."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        archive.extractall(directory, filter="data")
