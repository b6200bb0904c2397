"""Packs and unpacks directories as tar archives, in temporary files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ._errors import WorkspaceError

if TYPE_CHECKING:
    from tarfile import TarFile, TarInfo


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
    """Extracts the tar in a file into a directory. Keeps links as they are, but writes nothing through one."""
    import tarfile

    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    file.seek(0)
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            target = _place(root, member.name)
            if target != root:
                _extract(archive, member, root, target)


def _place(root: Path, name: str) -> Path:
    """Returns the path of a member, and creates the directories above it. Raises an error if it leaves the root."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    # On Windows, a part may also have other separators or a drive.
    if name.startswith("/") or ".." in parts or any(Path(part).name != part for part in parts):
        raise WorkspaceError(f"the archive has the path `{name}`, which leaves the directory")
    path = root
    for part in parts[:-1]:
        path /= part
        if path.is_symlink():
            raise WorkspaceError(f"the archive has the path `{name}` below a link, which may leave the directory")
        path.mkdir(exist_ok=True)
    return path / parts[-1] if parts else root


def _extract(archive: TarFile, member: TarInfo, root: Path, target: Path) -> None:
    """Creates a file, directory or link, in place of a file or link with its name."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        target.unlink()
    if member.isdir():
        target.mkdir(exist_ok=True)
        target.chmod(member.mode & 0o755 | 0o700)
    elif member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        os.link(_place(root, member.linkname), target, follow_symlinks=False)
    elif member.isreg():
        content = archive.extractfile(member)
        # `x` fails if the file exists, also as a link.
        with target.open("xb") as file:
            if content is not None:
                shutil.copyfileobj(content, file)
        target.chmod(member.mode & 0o755 | 0o600)
        os.utime(target, (member.mtime, member.mtime))
    else:
        raise WorkspaceError(f"the archive has `{member.name}`, which is not a file, directory or link")
