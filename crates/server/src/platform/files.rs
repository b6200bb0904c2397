//! Single files below the directory of a workspace or a home, while processes
//! in a sandbox change that directory.
//!
//! A process in the sandbox may turn any directory into a symbolic link at any
//! moment. So the kernel resolves every path beneath the root (`openat2`), and
//! changes name only the last part of a path, relative to an open directory.
//! Nothing is opened before its kind is known: a pipe or a device cannot block
//! the server, nor notice that the server looked at it.

pub(crate) mod change;
pub(crate) mod list;
pub(crate) mod put;
pub(crate) mod read;
pub(crate) mod stat;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use elevo_core::RESERVED_NAME;
use rustix::fs::{Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use crate::platform::files::read::reopen;

/// The reason why a file was not read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The path does not exist.
    #[error("there is nothing at `{}`", .0.display())]
    NotFound(PathBuf),
    /// A symbolic link in the path leads out of the root.
    #[error("`{}` leads out through a symbolic link, or is a loop of links", .0.display())]
    LeadsOut(PathBuf),
    #[error("`{}` is a directory", .0.display())]
    IsDirectory(PathBuf),
    #[error("`{}`, or a part of it, is not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// A pipe, a socket or a device.
    #[error("`{}` is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("`{}` exists already", .0.display())]
    Exists(PathBuf),
    #[error("the directory `{}` is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// A precondition of the request is false.
    #[error("the state of `{}` does not match the precondition", .0.display())]
    Precondition(PathBuf),
    /// The path cannot be used for the request.
    #[error("`{}` {why}", .path.display())]
    Invalid { path: PathBuf, why: &'static str },
    /// Another process changed the files at the same time.
    #[error("the files changed at the same time")]
    Changed,
    /// The disk or the quota of the workspace is full.
    #[error("the workspace is full")]
    Full,
    /// A file cannot be read or written.
    #[error("a file could not be read or written")]
    Io(#[source] io::Error),
}

pub(crate) type Result<T> = std::result::Result<T, FileError>;

/// Owner of new files: user and group.
pub(crate) type OwnerIds = (u32, u32);

/// Links that stay beneath the root are followed.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// Flags of a descriptor that only names a directory.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Attempts to resolve a path while directories on the way are moved.
const ATTEMPTS: usize = 64;

/// The mode of new directories.
const DIRECTORY_MODE: u32 = 0o755;

/// The directory of a workspace or a home.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    owner: Option<OwnerIds>,
}

impl Root {
    /// Opens the directory. New files below it get `owner`.
    pub(crate) fn open(path: &Path, owner: Option<OwnerIds>) -> Result<Self> {
        let directory = rustix::fs::open(path, DIRECTORY, Mode::empty());
        let directory = directory.map_err(|error| FileError::Io(error.into()))?;
        Ok(Self { directory, owner })
    }

    /// Opens `path` beneath the root, and follows links that stay beneath it.
    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let inside = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        for _ in 0..ATTEMPTS {
            let flags = flags | OFlags::CLOEXEC;
            let opened =
                rustix::fs::openat2(&self.directory, inside, flags, Mode::empty(), BENEATH);
            match opened {
                // The kernel cannot exclude that a link led out, because a
                // process moved a directory meanwhile.
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened.map_err(|error| failed(error, path)),
            }
        }
        Err(FileError::Changed)
    }

    /// Opens the directory that contains `path`. Returns it with the last part
    /// of the path, which is not followed if it is a link.
    fn parent<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr)> {
        let (parent, name) = split(path)?;
        let directory = self.resolve(parent, DIRECTORY);
        let directory = directory.map_err(|error| of_parent(error, parent))?;
        Ok((directory, name))
    }

    /// Like [`Self::parent`], but creates missing directories.
    fn made_parent<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr)> {
        let (parent, name) = split(path)?;
        let mut missing = Vec::new();
        let mut there = parent;
        // The search starts at the end, so an existing directory costs one call.
        let mut directory = loop {
            match self.resolve(there, DIRECTORY) {
                Err(FileError::NotFound(_)) => {
                    let (above, name) = split(there)?;
                    missing.push(name);
                    there = above;
                }
                opened => break opened.map_err(|error| of_parent(error, there))?,
            }
        };
        for name in missing.into_iter().rev() {
            let made = match self.make_directory(&directory, name, DIRECTORY_MODE) {
                Err(Errno::EXIST) => enter(&directory, name),
                made => made,
            };
            directory = made.map_err(|error| failed(error, path))?;
        }
        Ok((directory, name))
    }

    /// Creates a directory, and opens it.
    fn make_directory(
        &self,
        parent: &OwnedFd,
        name: &OsStr,
        mode: u32,
    ) -> rustix::io::Result<OwnedFd> {
        let mode = Mode::from_raw_mode(mode);
        rustix::fs::mkdirat(parent, name, mode)?;
        let made = enter(parent, name)?;
        let readable = reopen(&made, OFlags::RDONLY | OFlags::DIRECTORY)?;
        // The mask of the server may have removed bits.
        rustix::fs::fchmod(&readable, mode)?;
        if let Some((uid, gid)) = self.owner {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            rustix::fs::fchown(&readable, Some(uid), Some(gid))?;
        }
        Ok(made)
    }
}

/// Opens a directory by its name, which must not be a link.
fn enter(parent: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}

/// Fails if a part of the path is the reserved name: snapshots leave out
/// everything below it, so a file there would be lost.
fn check_names(path: &Path) -> Result<()> {
    match path.iter().any(|name| name.as_bytes() == RESERVED_NAME) {
        true => Err(FileError::Invalid {
            path: path.into(),
            why: "has the reserved name `.elevo`, which no snapshot contains",
        }),
        false => Ok(()),
    }
}

/// Splits a path into its directory and its last part. Fails for the root.
fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    let why = "names the whole directory, not a file in it";
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(FileError::Invalid {
            path: path.into(),
            why,
        }),
    }
}

/// Names the directory in an error about a path below it.
fn of_parent(error: FileError, parent: &Path) -> FileError {
    match error {
        FileError::NotFound(_) => FileError::NotFound(parent.into()),
        FileError::NotDirectory(_) => FileError::NotDirectory(parent.into()),
        error => error,
    }
}

/// Converts the error of a system call about `path`.
fn failed(error: Errno, path: &Path) -> FileError {
    let path = || path.to_owned();
    match error {
        Errno::NOENT => FileError::NotFound(path()),
        // The kernel reports a link out of the root as another device.
        Errno::XDEV | Errno::LOOP => FileError::LeadsOut(path()),
        Errno::NOTDIR => FileError::NotDirectory(path()),
        Errno::ISDIR => FileError::IsDirectory(path()),
        Errno::EXIST => FileError::Exists(path()),
        Errno::NOTEMPTY => FileError::NotEmpty(path()),
        Errno::NXIO => FileError::NotAFile(path()),
        Errno::NAMETOOLONG => FileError::Invalid {
            path: path(),
            why: "has a name of more than 255 bytes, or is too long",
        },
        // For example a file without permission bits, if the server is not root.
        Errno::ACCESS | Errno::PERM => FileError::Invalid {
            path: path(),
            why: "cannot be used by the server because of its permissions",
        },
        Errno::STALE | Errno::BUSY => FileError::Changed,
        error => io_failed(error.into()),
    }
}

fn io_failed(error: io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::QuotaExceeded | io::ErrorKind::StorageFull => FileError::Full,
        _ => FileError::Io(error),
    }
}
