//! Unpacks an archive into files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use elevo_archive::{Entry, EntryKind, Limits, Reader};
use elevo_core::{Timestamp, TreePath};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::platform::archive::{
    ArchiveError, Result, failed, io_failed, limits, open_beneath, open_root, refused,
};

/// The owner and the maximum size of unpacked files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) owner: Option<(u32, u32)>,
    pub(crate) limit: u64,
}

/// Unpacks a tar into the directory `path`, which is created if necessary.
/// Replaces existing files. Returns the number of entries.
pub(crate) fn unpack(
    root: &Path,
    path: &Path,
    from: impl Read + Send,
    rules: Rules,
) -> Result<u64> {
    let root = open_root(root)?;
    let target = make_directories(root, path, path, rules)?;
    let limits: Limits = limits(rules.limit);
    let mut reader = Reader::new(from, limits)?;
    let mut count = 0;
    while let Some(entry) = reader.next_entry()? {
        let copy = target.try_clone().map_err(ArchiveError::Io)?;
        unpack_entry(copy, &entry, &mut reader, rules)?;
        count += 1;
    }
    Ok(count)
}

fn on_disk(path: &TreePath) -> PathBuf {
    OsStr::from_bytes(path.as_bytes()).into()
}

fn unpack_entry(
    target: OwnedFd,
    entry: &Entry,
    content: &mut impl Read,
    rules: Rules,
) -> Result<()> {
    let name = &on_disk(&entry.path);
    if entry.kind == EntryKind::Directory {
        let directory = make_directories(target, name, name, rules)?;
        let mode = entry.mode & 0o777 | 0o700;
        return rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode)).map_err(failed);
    }
    let Some(last) = name.file_name() else {
        return Err(refused(name, "it has no name"));
    };
    let parent = name.parent().unwrap_or(Path::new(""));
    let again = target.try_clone().map_err(ArchiveError::Io)?;
    let directory = make_directories(target, parent, name, rules)?;
    match &entry.kind {
        EntryKind::File => {
            clear(&directory, last, name)?;
            unpack_file(&directory, last, entry, content, rules)
        }
        EntryKind::Symlink(link) => {
            clear(&directory, last, name)?;
            let link = OsStr::from_bytes(link);
            rustix::fs::symlinkat(link, &directory, last).map_err(failed)?;
            own_link(&directory, last, rules)
        }
        EntryKind::HardLink(link) => unpack_hard_link(again, &directory, last, name, link),
        _ => Err(refused(name, "it is neither file, directory nor link")),
    }
}

fn unpack_file(
    directory: &OwnedFd,
    name: &OsStr,
    entry: &Entry,
    content: &mut impl Read,
    rules: Rules,
) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600));
    let mut file = File::from(file.map_err(failed)?);
    copy(content, &mut file)?;
    let mode = entry.mode & 0o777;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(failed)?;
    if let Some((uid, gid)) = rules.owner {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::fchown(&file, Some(uid), Some(gid)).map_err(failed)?;
    }
    let modified = timespec(entry.modified);
    let times = Timestamps {
        last_access: modified,
        last_modification: modified,
    };
    rustix::fs::futimens(&file, &times).map_err(failed)
}

fn timespec(time: Timestamp) -> Timespec {
    Timespec {
        tv_sec: time.seconds(),
        tv_nsec: time.nanos().into(),
    }
}

/// Copies the content of a file. Errors of the archive and errors of the
/// written file become different variants of `ArchiveError`.
fn copy(from: &mut impl Read, into: &mut File) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length.map_err(elevo_archive::Error::read)?,
        };
        if length == 0 {
            return Ok(());
        }
        into.write_all(&buffer[..length]).map_err(io_failed)?;
    }
}

fn unpack_hard_link(
    target: OwnedFd,
    directory: &OwnedFd,
    last: &OsStr,
    name: &Path,
    link: &TreePath,
) -> Result<()> {
    let link = on_disk(link);
    let Some(from_name) = link.file_name() else {
        return Err(refused(name, "it links to a directory"));
    };
    let parent = link.parent().unwrap_or(Path::new(""));
    let from = match parent.as_os_str().is_empty() {
        true => target,
        false => open_beneath(target.as_fd(), parent, name)?,
    };
    let stat = rustix::fs::statat(&from, from_name, AtFlags::SYMLINK_NOFOLLOW);
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !stat.as_ref().is_ok_and(is_file) {
        return Err(refused(name, "it links to something that is not a file"));
    }
    clear(directory, last, name)?;
    rustix::fs::linkat(&from, from_name, directory, last, AtFlags::empty()).map_err(failed)
}

/// Removes an existing file, so that another can be created in its place. Fails
/// if there is a directory.
fn clear(directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => Err(refused(path, "a directory is in the way")),
        Err(error) => Err(failed(error)),
    }
}

fn own_link(directory: &OwnedFd, name: &OsStr, rules: Rules) -> Result<()> {
    let Some((uid, gid)) = rules.owner else {
        return Ok(());
    };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(directory, name, Some(uid), Some(gid), flags).map_err(failed)
}

/// Opens a directory, and creates those that are missing on the way.
fn make_directories(root: OwnedFd, path: &Path, named: &Path, rules: Rules) -> Result<OwnedFd> {
    let mut directory = root;
    for part in path.components() {
        let Component::Normal(name) = part else {
            continue;
        };
        let mode = Mode::from_raw_mode(0o755);
        let is_new = match rustix::fs::mkdirat(&directory, name, mode) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(failed(error)),
        };
        if is_new {
            own_link(&directory, name, rules)?;
        }
        directory = open_beneath(directory.as_fd(), Path::new(name), named)?;
        if is_new {
            // The umask of the server must not hide the directory from others.
            rustix::fs::fchmod(&directory, mode).map_err(failed)?;
        }
    }
    Ok(directory)
}
