//! Deletes a directory with hostile content: any depth, any permissions, and
//! nothing outside is touched.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Moves `path` into the directory `trash` with one rename, if it exists, and
/// empties `trash`.
pub(crate) fn delete(path: &Path, trash: &Path) -> Result<()> {
    move_into(path, trash)?;
    empty(trash).map_err(Error::io("empty", trash))
}

/// Moves `path` into `trash`, without emptying it.
pub(crate) fn move_into(path: &Path, trash: &Path) -> Result<()> {
    let failed = || Error::io("delete", path);
    std::fs::create_dir_all(trash).map_err(Error::io("create", trash))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    loop {
        let new = trash.join(new_name(&name));
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(CWD, path, CWD, &new, flags) {
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Ok(()),
            other => return other.map_err(|error| failed()(error.into())),
        }
    }
}

/// Returns a name that no other thread ever gives to an entry of the trash. A
/// thread that empties the trash works by name and could delete the wrong entry
/// otherwise.
fn new_name(name: &str) -> String {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    let number = GIVEN.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{number}", std::process::id())
}

/// Deletes everything in the directory `trash`, which only this crate uses.
///
/// A directory inside another is first moved up into `trash`, so that there is
/// never a deep path or a chain of open directories.
pub(crate) fn empty(trash: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let trash = rustix::fs::open(trash, flags, Mode::empty())?;
    loop {
        let directories = clear(trash.as_fd(), trash.as_fd())?;
        if directories.is_empty() {
            return Ok(());
        }
        for name in directories {
            let Some(directory) = open(trash.as_fd(), &name)? else {
                continue;
            };
            clear(trash.as_fd(), directory.as_fd())?;
            gone(rustix::fs::unlinkat(
                &trash,
                name.as_slice(),
                AtFlags::REMOVEDIR,
            ))?;
        }
    }
}

/// Unlinks the files in `directory` and moves its directories up into `trash`.
/// If `directory` is `trash` itself, returns its directories instead.
fn clear(trash: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let is_trash = trash.as_raw_fd() == directory.as_raw_fd();
    let mut directories = Vec::new();
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((name.to_vec(), entry.file_type()));
        }
    }
    for (name, kind) in names {
        let unlinked = match kind {
            FileType::Directory => Err(Errno::ISDIR),
            _ => rustix::fs::unlinkat(directory, name.as_slice(), AtFlags::empty()),
        };
        match unlinked {
            Err(Errno::ISDIR) if is_trash => directories.push(name),
            Err(Errno::ISDIR) => {
                // Moving a directory needs write permission on it, which `open`
                // sets.
                drop(open(directory, &name)?);
                move_up(trash, directory, &name)?;
            }
            other => gone(other)?,
        }
    }
    Ok(directories)
}

fn move_up(trash: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    loop {
        let new = new_name("moved");
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(directory, name, trash, new.as_str(), flags) {
            Err(Errno::EXIST) => {}
            other => return gone(other),
        }
    }
}

/// Opens a directory to list and change it, and sets the owner's permissions
/// first if needed; `None` if it is gone.
#[cfg(target_os = "linux")]
fn open(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<OwnedFd>> {
    let path = match rustix::fs::openat(parent, name, DIRECTORY | OFlags::PATH, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        other => other?,
    };
    let stat = rustix::fs::fstat(&path)?;
    if stat.st_mode & 0o700 != 0o700 {
        // The descriptor refers to the directory itself even if its name has
        // changed. `fchmod` does not accept an `O_PATH` descriptor, so go
        // through `/proc`.
        let itself = format!("/proc/self/fd/{}", path.as_raw_fd());
        rustix::fs::chmod(itself, Mode::RWXU)?;
    }
    let opened = rustix::fs::openat(&path, c".", DIRECTORY | OFlags::RDONLY, Mode::empty());
    Ok(Some(opened?))
}

/// Like the Linux version, for systems without `O_PATH`. If the name comes to
/// refer to another directory in between, that directory belongs to the same
/// user.
#[cfg(not(target_os = "linux"))]
fn open(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<OwnedFd>> {
    let open = || rustix::fs::openat(parent, name, DIRECTORY | OFlags::RDONLY, Mode::empty());
    let opened = match open() {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)?;
            open()
        }
        opened => opened,
    };
    match opened {
        Err(Errno::NOENT) => Ok(None),
        opened => {
            let opened = opened?;
            rustix::fs::fchmod(&opened, Mode::RWXU)?;
            Ok(Some(opened))
        }
    }
}

/// Ignores missing entries: another process may be emptying the same trash.
fn gone(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn deletes_everything_inside_and_nothing_outside() {
        let directory = tempfile::tempdir().unwrap();
        let outside = directory.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        let trash = directory.path().join("trash");
        let inner = trash.join("a/b/c");
        fs::create_dir_all(&inner).unwrap();
        symlink(&outside, inner.join("link")).unwrap();
        symlink(&outside, trash.join("link")).unwrap();
        fs::write(inner.join("file"), "").unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(trash.join("a"), fs::Permissions::from_mode(0o500)).unwrap();
        empty(&trash).unwrap();
        assert_eq!(fs::read_dir(&trash).unwrap().count(), 0);
        assert!(outside.join("kept").exists());
    }

    #[test]
    fn deletes_directories_of_any_depth() {
        let trash = tempfile::tempdir().unwrap();
        let flags = OFlags::RDONLY | DIRECTORY;
        let mut at = rustix::fs::open(trash.path(), flags, Mode::empty()).unwrap();
        for _ in 0..2000 {
            rustix::fs::mkdirat(&at, "deeper", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "deeper", flags, Mode::empty()).unwrap();
        }
        drop(at);
        empty(trash.path()).unwrap();
        assert_eq!(fs::read_dir(trash.path()).unwrap().count(), 0);
    }
}
