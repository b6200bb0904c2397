//! Writes files. The content goes into a file without a name, which replaces
//! the file at its path in one step once it is complete. Neither a snapshot nor
//! a process in the sandbox sees a part of it, and the kernel deletes it when
//! the server ends before.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use elevo_core::RESERVED_NAME;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;

use crate::platform::clock;
use crate::platform::files::read::reopen;
use crate::platform::files::stat::{Condition, FileStat, Kind};
use crate::platform::files::{
    DIRECTORY, FileError, OwnerIds, Result, Root, check_names, failed, io_failed,
};

/// The mode of new files.
const FILE_MODE: u32 = 0o644;

/// A file that is being written and has no name yet.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    /// Whether it is on the file system of the root, and a name suffices.
    is_beneath: bool,
}

/// The place and the properties of a new file.
#[derive(Debug)]
pub(crate) struct Put<'a> {
    pub(crate) path: &'a Path,
    /// Permission bits. By default those of the file that is replaced, or
    /// `0644`.
    pub(crate) mode: Option<u32>,
    /// Whether missing directories are created.
    pub(crate) parents: bool,
    /// Whether the file and its directory are written to the disk.
    pub(crate) sync: bool,
    pub(crate) condition: &'a Condition,
    /// The time of the content.
    pub(crate) now: SystemTime,
}

impl Root {
    /// Creates a file without a name. If the file system of the root does not
    /// support that, the file is in the directory `elsewhere`.
    pub(crate) fn new_file(&self, elsewhere: &Path) -> Result<NewFile> {
        let mode = Mode::from_raw_mode(0o600);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.directory, ".", flags, mode) {
            Ok(file) => Ok(NewFile {
                file: file.into(),
                is_beneath: true,
            }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => self.new_elsewhere(elsewhere),
            Err(error) => Err(io_failed(error.into())),
        }
    }

    pub(super) fn new_elsewhere(&self, directory: &Path) -> Result<NewFile> {
        let file = tempfile::tempfile_in(directory).map_err(io_failed)?;
        Ok(NewFile {
            file,
            is_beneath: false,
        })
    }

    /// Puts a complete file at its path, in place of another file or link.
    /// Returns its metadata, and whether there was no file.
    ///
    /// Only one caller at a time may put files below one root: a file gets its
    /// path by way of a fixed name.
    pub(crate) fn put(&self, mut new: NewFile, put: &Put<'_>) -> Result<(FileStat, bool)> {
        let failed = |error| failed(error, put.path);
        check_names(put.path)?;
        let (directory, name) = match put.parents {
            true => self.made_parent(put.path)?,
            false => self.parent(put.path)?,
        };
        let old = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(FileStat::of(&stat)),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(failed(error)),
        };
        if !put.condition.allows(old.as_ref()) {
            return Err(FileError::Precondition(put.path.into()));
        }
        if old.as_ref().is_some_and(|old| old.kind == Kind::Directory) {
            return Err(FileError::IsDirectory(put.path.into()));
        }
        let replaced = old.as_ref().filter(|old| old.kind == Kind::File);
        let mode = put.mode.or(replaced.map(|old| old.mode & 0o777));
        new.finish(mode.unwrap_or(FILE_MODE), self.owner, put.now)?;
        if put.sync && new.is_beneath {
            new.file.sync_all().map_err(io_failed)?;
        }
        let mut file = new.file.try_clone().map_err(io_failed)?;
        // A new name is created without a step in between, and fails if a
        // process creates the file at the same time.
        let linked = match new.is_beneath && old.is_none() {
            true => link(&new.file, &directory, name),
            false => Err(Errno::EXIST),
        };
        match linked {
            Ok(()) => {}
            Err(Errno::EXIST) if put.condition.is_new && new.is_beneath => {
                return Err(FileError::Precondition(put.path.into()));
            }
            Err(Errno::EXIST) => {
                let (placed, beside) = self.place(new, &directory, put)?;
                file = placed;
                rustix::fs::renameat(&directory, &beside, &directory, name).map_err(|error| {
                    let _ = rustix::fs::unlinkat(&directory, &beside, AtFlags::empty());
                    failed(error)
                })?;
            }
            // The root is another one since the file was created.
            Err(Errno::XDEV) => return Err(FileError::Changed),
            Err(error) => return Err(failed(error)),
        }
        if put.sync {
            sync(&directory).map_err(failed)?;
        }
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        Ok((FileStat::of(&stat), old.is_none()))
    }

    /// Gives a file a temporary name in a directory. This is the reserved name:
    /// snapshots leave it out, and the next call deletes a file that a killed
    /// server left behind.
    fn place(
        &self,
        mut new: NewFile,
        directory: &OwnedFd,
        put: &Put<'_>,
    ) -> Result<(File, OsString)> {
        let failed = |error| match error {
            Errno::XDEV => FileError::Changed,
            error => failed(error, put.path),
        };
        let reserved = OsStr::from_bytes(RESERVED_NAME);
        let name = match rustix::fs::unlinkat(directory, reserved, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => reserved.to_owned(),
            // The directory has its own store.
            Err(Errno::ISDIR) => clock::name(".elevo-").into(),
            Err(error) => return Err(failed(error)),
        };
        if new.is_beneath {
            link(&new.file, directory, &name).map_err(failed)?;
            return Ok((new.file, name));
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let copy = rustix::fs::openat(directory, &name, flags, mode).map_err(failed)?;
        let mut copy = NewFile {
            file: copy.into(),
            is_beneath: true,
        };
        let copied = new.file.rewind();
        let copied = copied.and_then(|()| io::copy(&mut new.file, &mut copy.file));
        let mode = new.file.metadata().map_err(io_failed)?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777;
        let done = copied.map_err(io_failed);
        let done = done.and_then(|_| copy.finish(mode, self.owner, put.now));
        let done = done.and_then(|()| match put.sync {
            true => copy.file.sync_all().map_err(io_failed),
            false => Ok(()),
        });
        if let Err(error) = done {
            let _ = rustix::fs::unlinkat(directory, &name, AtFlags::empty());
            return Err(error);
        }
        Ok((copy.file, name))
    }
}

impl NewFile {
    /// Appends to the content.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(io_failed)
    }

    /// Writes the content to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(io_failed)
    }

    fn finish(&mut self, mode: u32, owner: Option<OwnerIds>, now: SystemTime) -> Result<()> {
        let failed = |error: Errno| io_failed(error.into());
        if let Some((uid, gid)) = owner.filter(|_| self.is_beneath) {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            rustix::fs::fchown(&self.file, Some(uid), Some(gid)).map_err(failed)?;
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode)).map_err(failed)?;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: i64::try_from(now.as_secs()).unwrap_or_default(),
                tv_nsec: now.subsec_nanos().into(),
            },
        };
        rustix::fs::futimens(&self.file, &times).map_err(failed)
    }
}

/// Gives a name to a file without one.
fn link(file: &File, directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(rustix::fs::CWD, unnamed, directory, name, flags)
}

/// Writes a directory to the disk.
fn sync(directory: impl AsFd) -> rustix::io::Result<()> {
    let named = rustix::fs::openat(directory, ".", DIRECTORY, Mode::empty())?;
    rustix::fs::fsync(reopen(&named, OFlags::RDONLY | OFlags::DIRECTORY)?)
}
