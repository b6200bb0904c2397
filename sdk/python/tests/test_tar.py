"""Archives that `download` extracts."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from workspace_sdk._tar import pack, unpack
from workspace_sdk.errors import WorkspaceError


def archive(*members: tuple[str, bytes, str]) -> io.BytesIO:
    """Returns a tar of members: name, type, and the content of a file or the target of a link."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, kind, text in members:
            member = tarfile.TarInfo(name)
            member.type = kind
            if kind == tarfile.REGTYPE:
                member.size = len(text)
            else:
                member.linkname = text
            tar.addfile(member, io.BytesIO(text.encode()))
    return file


FILE, DIRECTORY, LINK, HARD, PIPE = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE


def test_a_directory_is_the_same_after_both_ways(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "run").write_text("#!/bin/sh\n")
    (source / "bin" / "run").chmod(0o755)
    (source / "bin" / "python").symlink_to("/usr/bin/python3")
    (source / "up").symlink_to("../elsewhere")
    with pack(source) as file:
        for _ in range(2):
            unpack(file, tmp_path / "target")
    target = tmp_path / "target"
    assert (target / "bin" / "run").read_text() == "#!/bin/sh\n"
    assert (target / "bin" / "run").stat().st_mode & 0o777 == 0o755
    assert str((target / "bin" / "python").readlink()) == "/usr/bin/python3"
    assert str((target / "up").readlink()) == "../elsewhere"


@pytest.mark.parametrize(
    "members",
    [
        [("/out", FILE, "x")],
        [("../out", FILE, "x")],
        [("a/../../out", FILE, "x")],
        [("link", LINK, ".."), ("link/out", FILE, "x")],
        [("a", DIRECTORY, ""), ("a/link", LINK, "../.."), ("a/link/b/out", FILE, "x")],
        [("link", LINK, ".."), ("hard", HARD, "link/secret")],
        [("hard", HARD, "../secret")],
        [("pipe", PIPE, "")],
    ],
)
def test_an_archive_does_not_leave_its_directory(tmp_path: Path, members: list[tuple[str, bytes, str]]) -> None:
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(WorkspaceError, match="the archive has"):
        unpack(archive(*members), tmp_path / "target")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "target"]
    assert (tmp_path / "secret").stat().st_nlink == 1


def test_a_file_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    unpack(archive(("a", LINK, "../secret"), ("a", FILE, "new")), tmp_path / "target")
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "target" / "a").read_text() == "new"


def test_hard_links_stay_in_the_directory(tmp_path: Path) -> None:
    unpack(archive(("a", FILE, "text"), ("b/c", HARD, "a")), tmp_path)
    assert (tmp_path / "b" / "c").read_text() == "text"
