//! Finds files by their paths, and denies those that show the agent itself.
//!
//! The kernel protects the agent from other processes of the same user, but
//! not from itself: a read of `/proc/self/mem` by the agent would return its
//! token. So files by which `/proc` shows processes are denied, after all links
//! on the way were followed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use elevo_agent_proto::v1::{FileFailure, FileKind, FileStat};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Outcome, failed};

/// The type of the file system `/proc`.
const PROC: u64 = 0x9fa0;

/// Opens a descriptor that only names a file. Nothing blocks, and no device
/// notices it.
pub(super) fn name(path: &Path, flags: OFlags) -> Outcome<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    let named = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    match shows_process(&named)? {
        true => Err(FileFailure::Denied),
        false => Ok(named),
    }
}

/// Opens the directory that contains a path. Returns it with the last part of
/// the path, which is not followed if it is a link.
pub(super) fn parent(path: &Path) -> Outcome<(OwnedFd, &OsStr)> {
    let (above, last) = split(path)?;
    Ok((name(above, OFlags::DIRECTORY)?, last))
}

/// Splits a path into its directory and its last part.
pub(super) fn split(path: &Path) -> Outcome<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(above), Some(last)) => Ok((above, last)),
        _ => Err(FileFailure::IsDirectory),
    }
}

/// Opens the file of a descriptor that only names it. The descriptor holds the
/// file, so no other file can take its place.
pub(super) fn reopen(named: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(own(named), flags, Mode::empty())
}

fn own(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Whether `/proc` shows a process by this file.
fn shows_process(named: &OwnedFd) -> Outcome<bool> {
    if !is_kernel(named)? {
        return Ok(false);
    }
    let path = rustix::fs::readlink(own(named), Vec::new()).map_err(failed)?;
    let path = Path::new(OsStr::from_bytes(path.as_bytes()));
    let Ok(below) = path.strip_prefix("/proc") else {
        return Ok(true);
    };
    Ok(match below.components().next() {
        None => false,
        Some(Component::Normal(first)) => first.as_bytes()[0].is_ascii_digit(),
        Some(_) => true,
    })
}

/// Whether a file is in `/proc`.
fn is_kernel(fd: impl AsFd) -> Outcome<bool> {
    let system = rustix::fs::fstatfs(fd).map_err(failed)?;
    Ok(system.f_type as u64 == PROC)
}

/// Returns the metadata of a file in a directory, which is not followed if it
/// is a link.
pub(super) fn stat_in(directory: &OwnedFd, name: &OsStr) -> Result<FileStat, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The descriptor keeps metadata and target those of one link.
    let named = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let mut stat = convert(&rustix::fs::fstat(&named)?);
    if stat.kind() == FileKind::Symlink {
        // The links by which `/proc` shows processes may be unreadable.
        let target = rustix::fs::readlinkat(&named, "", Vec::new());
        stat.target = target.map(|t| t.into_bytes()).unwrap_or_default().into();
    }
    Ok(stat)
}

pub(super) fn convert(stat: &Stat) -> FileStat {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Unspecified,
    };
    FileStat {
        kind: kind.into(),
        size: stat.st_size as u64,
        mode: stat.st_mode & 0o7777,
        modified_seconds: stat.st_mtime,
        modified_nanos: stat.st_mtime_nsec as u32,
        changed_seconds: stat.st_ctime,
        changed_nanos: stat.st_ctime_nsec as u32,
        inode: stat.st_ino,
        target: Default::default(),
    }
}
