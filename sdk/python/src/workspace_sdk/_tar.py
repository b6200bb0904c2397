"""Packs and unpacks directories as tar archives, in temporary files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from tarfile import TarInfo


def new_file() -> IO[bytes]:
    """Returns a temporary file, which is deleted when it is closed."""
    import tempfile

    return tempfile.TemporaryFile()


def pack(directory: str | os.PathLike[str]) -> IO[bytes]:
    """Returns a file with a tar of the files below a directory, with paths relative to it."""
    import tarfile

    root = Path(directory)
    if not root.is_dir():
        raise NotADirectoryError(f"`{root}` is not a directory")
    file = new_file()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path in sorted(root.iterdir()):
            archive.add(path, arcname=path.name, filter=_anonymous)
    file.seek(0)
    return file


def _anonymous(member: TarInfo) -> TarInfo:
    """Removes the owner, who does not exist in the sandbox."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(file: IO[bytes], directory: str | os.PathLike[str]) -> None:
    """Extracts the tar in a file into a directory. Refuses members that would leave the directory."""
    import tarfile

    Path(directory).mkdir(parents=True, exist_ok=True)
    file.seek(0)
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        archive.extractall(directory, filter="data")
