//! Deletes, moves and creates names.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use elevo_agent_proto::v1::{FileFailure, FileKind, FileStat, MakeDirectory, RemoveFile};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::put::{CHANGE, check, found, temporary_name};
use super::resolve::{self, parent, reopen, stat_in};
use super::{Outcome, failed};

/// The mode of new directories.
const DIRECTORY_MODE: u32 = 0o755;

/// Maximum directories that a deletion holds open.
const DEEPEST: usize = 64;

/// Maximum rounds of a deletion in a directory that processes write to. Each
/// round deletes at least [`DEEPEST`] levels.
const ROUNDS: usize = 1024;

pub(super) fn remove(path: &Path, wish: &RemoveFile) -> Outcome<()> {
    let (directory, name) = parent(path)?;
    let condition = wish.condition.clone().unwrap_or_default();
    {
        let _changing = CHANGE.lock();
        let stat = found(&directory, name)?;
        check(&condition, stat.as_ref())?;
        let stat = stat.ok_or(FileFailure::NotFound)?;
        if stat.kind() != FileKind::Directory {
            return rustix::fs::unlinkat(&directory, name, AtFlags::empty()).map_err(failed);
        }
    }
    for _ in 0..ROUNDS {
        match rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if wish.recursive => {}
            Err(Errno::EXIST) => return Err(FileFailure::NotEmpty),
            removed => return removed.map_err(failed),
        }
        let top = enter(&directory, name).map_err(failed)?;
        empty(&top, &top, 0).map_err(failed)?;
    }
    Err(FileFailure::NotEmpty)
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
                Err(errno) => return Err(errno),
            }
        }
        if depth == DEEPEST {
            match rustix::fs::renameat(directory, name, top, temporary_name()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno),
            }
        }
        let below = match enter(directory, name) {
            Ok(below) => below,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(errno) => return Err(errno),
        };
        empty(&below, top, depth + 1)?;
        match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            // Not empty: processes write to it, or the next round continues.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Opens a directory by its name, which must not be a link.
fn enter(parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

pub(super) fn rename(from: &Path, to: &Path, overwrite: bool) -> Outcome<FileStat> {
    let (old_directory, old_name) = parent(from)?;
    let (new_directory, new_name) = parent(to)?;
    let flags = match overwrite {
        true => RenameFlags::empty(),
        false => RenameFlags::NOREPLACE,
    };
    let _changing = CHANGE.lock();
    let moved =
        rustix::fs::renameat_with(&old_directory, old_name, &new_directory, new_name, flags);
    moved.map_err(|errno| match errno {
        Errno::INVAL => FileFailure::BelowItself,
        errno => failed(errno),
    })?;
    stat_in(&new_directory, new_name).map_err(failed)
}

/// Creates a directory. Also returns whether it is new.
pub(super) fn make_directory(path: &Path, wish: MakeDirectory) -> Outcome<(FileStat, bool)> {
    let (above, last) = resolve::split(path)?;
    if wish.parents {
        make_all(above)?;
    }
    let directory = resolve::name(above, OFlags::DIRECTORY)?;
    let mode = Mode::from_raw_mode(wish.mode.unwrap_or(DIRECTORY_MODE) & 0o7777);
    match rustix::fs::mkdirat(&directory, last, Mode::from_raw_mode(DIRECTORY_MODE)) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            // A link to a directory counts as one.
            return match resolve::name(path, OFlags::DIRECTORY) {
                Ok(_) => Ok((stat_in(&directory, last).map_err(failed)?, false)),
                Err(_) => Err(FileFailure::Exists),
            };
        }
        Err(errno) => return Err(failed(errno)),
    }
    if wish.mode.is_some() {
        let made = enter(&directory, last).map_err(failed)?;
        let made = reopen(&made, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        rustix::fs::fchmod(made, mode).map_err(failed)?;
    }
    Ok((stat_in(&directory, last).map_err(failed)?, true))
}

/// Creates a directory and all missing directories above it.
pub(super) fn make_all(path: &Path) -> Outcome<()> {
    let mut missing = Vec::new();
    let mut there = path;
    // The search starts at the end, so an existing directory costs one call.
    let mut directory = loop {
        match resolve::name(there, OFlags::DIRECTORY) {
            Err(FileFailure::NotFound) => {
                let (above, last) = resolve::split(there)?;
                missing.push(last);
                there = above;
            }
            opened => break opened?,
        }
    };
    for name in missing.into_iter().rev() {
        match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(DIRECTORY_MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        directory = enter(&directory, name).map_err(failed)?;
    }
    Ok(())
}
