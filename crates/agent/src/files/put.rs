//! Writes files. The content goes into a file with a temporary name, which
//! replaces the file at its path in one step once it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use elevo_agent_proto::file_tag;
use elevo_agent_proto::v1::{FileCondition, FileFailure, FileKind, FileStat, PutFile};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;

use super::resolve::{self, convert, reopen, stat_in};
use super::{Outcome, change, failed};
use crate::state::now_us;

/// The mode of new files.
const FILE_MODE: u32 = 0o644;

/// Held while a condition is checked and the file is changed.
pub(super) static CHANGE: Mutex<()> = Mutex::new(());

/// A file that is being written. It is deleted when dropped, unless it was put
/// at its path.
pub(super) struct NewFile {
    file: File,
    directory: OwnedFd,
    name: OsString,
    temporary: Option<OsString>,
}

impl NewFile {
    pub(super) fn new(path: &Path, parents: bool) -> Outcome<Self> {
        let (above, name) = resolve::split(path)?;
        if parents {
            change::make_all(above)?;
        }
        let directory = resolve::name(above, OFlags::DIRECTORY)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = flags | OFlags::CLOEXEC;
        let temporary = temporary_name();
        let mode = Mode::from_raw_mode(0o600);
        let file = rustix::fs::openat(&directory, &temporary, flags, mode).map_err(failed)?;
        Ok(Self {
            file: file.into(),
            directory,
            name: name.to_owned(),
            temporary: Some(temporary),
        })
    }

    pub(super) fn write(&mut self, data: &[u8]) -> Outcome<()> {
        self.file.write_all(data).map_err(|error| of_io(&error))
    }

    /// Puts the complete file at its path. Also returns whether there was no
    /// file.
    pub(super) fn put(mut self, wish: &PutFile) -> Outcome<(FileStat, bool)> {
        if wish.sync {
            self.file.sync_all().map_err(|error| of_io(&error))?;
        }
        let condition = wish.condition.clone().unwrap_or_default();
        let changing = CHANGE.lock();
        let old = found(&self.directory, &self.name)?;
        check(&condition, old.as_ref())?;
        let replaced = match old.as_ref().map(FileStat::kind) {
            Some(FileKind::Directory) => return Err(FileFailure::IsDirectory),
            Some(FileKind::File) => old.as_ref().map(|old| old.mode & 0o777),
            _ => None,
        };
        let mode = wish.mode.or(replaced).unwrap_or(FILE_MODE);
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode & 0o7777)).map_err(failed)?;
        self.set_time().map_err(failed)?;
        let flags = match condition.is_new {
            true => RenameFlags::NOREPLACE,
            false => RenameFlags::empty(),
        };
        let temporary = self.temporary.take().unwrap_or_default();
        let renamed = rustix::fs::renameat_with(
            &self.directory,
            &temporary,
            &self.directory,
            &self.name,
            flags,
        );
        if let Err(errno) = renamed {
            self.temporary = Some(temporary);
            return Err(match errno {
                Errno::EXIST if condition.is_new => FileFailure::Precondition,
                errno => failed(errno),
            });
        }
        drop(changing);
        if wish.sync {
            let readable = reopen(&self.directory, OFlags::RDONLY | OFlags::DIRECTORY);
            rustix::fs::fsync(readable.map_err(failed)?).map_err(failed)?;
        }
        let stat = rustix::fs::fstat(&self.file).map_err(failed)?;
        Ok((convert(&stat), old.is_none()))
    }

    /// Sets the exact time of the content. The kernel's own times are rounded
    /// to a tick of its clock, and would not tell two writes apart.
    fn set_time(&self) -> rustix::io::Result<()> {
        let now = now_us();
        let modified = match now {
            0 => Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_NOW,
            },
            now => Timespec {
                tv_sec: now / 1_000_000,
                tv_nsec: now % 1_000_000 * 1000,
            },
        };
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: modified,
        };
        rustix::fs::futimens(&self.file, &times)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // A process in the sandbox may have deleted it.
            let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        }
    }
}

/// Returns a name that no other file has.
pub(super) fn temporary_name() -> OsString {
    // Each `RandomState` has new keys from the system's random source.
    let random = RandomState::new().hash_one(0);
    PathBuf::from(format!(".elevo-{random:016x}")).into()
}

/// Returns the metadata of a file, if it exists.
pub(super) fn found(directory: &OwnedFd, name: &OsStr) -> Outcome<Option<FileStat>> {
    match stat_in(directory, name) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}

/// Fails if the state of a file does not allow a change.
pub(super) fn check(condition: &FileCondition, found: Option<&FileStat>) -> Outcome<()> {
    let has_tag = |found: &FileStat| {
        condition.tags.is_empty()
            || found.kind() != FileKind::Directory && condition.tags.contains(&file_tag(found))
    };
    let needs_file = condition.exists || !condition.tags.is_empty();
    let is_allowed = match found {
        Some(found) => !condition.is_new && has_tag(found),
        None => !needs_file,
    };
    match is_allowed {
        true => Ok(()),
        false => Err(FileFailure::Precondition),
    }
}

fn of_io(error: &std::io::Error) -> FileFailure {
    failed(Errno::from_io_error(error).unwrap_or(Errno::IO))
}
