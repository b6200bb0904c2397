//! Deletes, moves and creates names.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::platform::clock;
use crate::platform::files::read::reopen;
use crate::platform::files::stat::{Condition, FileStat, Kind};
use crate::platform::files::{
    DIRECTORY, DIRECTORY_MODE, FileError, Result, Root, check_names, enter, failed,
};

/// Maximum directories that a deletion holds open.
const DEEPEST: usize = 64;

/// Maximum rounds of a deletion in a directory that processes write to. Each
/// round deletes at least [`DEEPEST`] levels.
const ROUNDS: usize = 1024;

impl Root {
    /// Deletes a file, a link or an empty directory. With `recursive`, deletes a
    /// directory with everything in it.
    pub(crate) fn remove(&self, path: &Path, recursive: bool, condition: &Condition) -> Result<()> {
        let (directory, name) = self.parent(path)?;
        let failed = |error| failed(error, path);
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = match stat {
            Ok(stat) => FileStat::of(&stat),
            Err(Errno::NOENT) if !condition.allows(None) => {
                return Err(FileError::Precondition(path.into()));
            }
            Err(error) => return Err(failed(error)),
        };
        if !condition.allows(Some(&stat)) {
            return Err(FileError::Precondition(path.into()));
        }
        if stat.kind != Kind::Directory {
            return rustix::fs::unlinkat(&directory, name, AtFlags::empty()).map_err(failed);
        }
        for _ in 0..ROUNDS {
            match rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) if recursive => {}
                Err(Errno::EXIST) => return Err(FileError::NotEmpty(path.into())),
                removed => return removed.map_err(failed),
            }
            let top = enter(&directory, name).map_err(failed)?;
            empty(&top, &top, 0).map_err(failed)?;
        }
        Err(FileError::NotEmpty(path.into()))
    }

    /// Moves a file, a link or a directory. Replaces a file at the new path only
    /// with `overwrite`.
    pub(crate) fn rename(&self, from: &Path, to: &Path, overwrite: bool) -> Result<FileStat> {
        check_names(from)?;
        check_names(to)?;
        let (old_directory, old_name) = self.parent(from)?;
        let (new_directory, new_name) = self.parent(to)?;
        let flags = match overwrite {
            true => RenameFlags::empty(),
            false => RenameFlags::NOREPLACE,
        };
        let moved =
            rustix::fs::renameat_with(&old_directory, old_name, &new_directory, new_name, flags);
        moved.map_err(|error| match error {
            Errno::INVAL => FileError::Invalid {
                path: to.into(),
                why: "is below the directory that is moved",
            },
            Errno::XDEV => FileError::Invalid {
                path: from.into(),
                why: "cannot be moved by this file system; move it with a command",
            },
            // Both paths were resolved, so the old name is missing.
            Errno::NOENT => FileError::NotFound(from.into()),
            error => failed(error, to),
        })?;
        self.stat(to)
    }

    /// Creates a directory. Returns false if it existed.
    pub(crate) fn make_directory_at(
        &self,
        path: &Path,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<(FileStat, bool)> {
        check_names(path)?;
        let (directory, name) = match parents {
            true => self.made_parent(path)?,
            false => self.parent(path)?,
        };
        let mode = mode.unwrap_or(DIRECTORY_MODE);
        match self.make_directory(&directory, name, mode) {
            Ok(_) => Ok((self.stat(path)?, true)),
            Err(Errno::EXIST) => {
                // A link to a directory counts as one.
                match self.resolve(path, DIRECTORY) {
                    Ok(_) => Ok((self.stat(path)?, false)),
                    Err(_) => Err(FileError::Exists(path.into())),
                }
            }
            Err(error) => Err(failed(error, path)),
        }
    }
}

/// Deletes everything in a directory. Moves directories that are nested too
/// deeply into `top`, where a later round deletes them, so that the depth of a
/// tree costs neither descriptors nor stack.
fn empty(directory: &OwnedFd, top: &OwnedFd, depth: usize) -> rustix::io::Result<()> {
    let readable = reopen(directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
    for entry in Dir::read_from(&readable)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if matches!(name.as_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() != FileType::Directory {
            match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // The kind was not known, or a directory took its place.
                Err(Errno::ISDIR) => {}
                Err(error) => return Err(error),
            }
        }
        if depth == DEEPEST {
            let beside: OsString = clock::name(".elevo-").into();
            ignore_missing(rustix::fs::renameat(directory, name, top, &beside))?;
            continue;
        }
        let below = match enter(directory, name) {
            Ok(below) => below,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(error) => return Err(error),
        };
        empty(&below, top, depth + 1)?;
        match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            // Not empty: processes write to it, or the next round continues.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn ignore_missing(done: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match done {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}
