//! Packs files into an archive.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use elevo_archive::{Head, HeadKind, Writer};
use elevo_core::Timestamp;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::platform::archive::{ArchiveError, DEEPEST, Result, failed, open_beneath, open_root};

/// Writes the entry at `path` as a tar. The names in the tar are relative: to
/// `path` for a directory, and to its parent directory for a file. Sockets,
/// pipes and devices are left out.
pub(crate) fn pack(root: &Path, path: &Path, out: impl Write) -> Result<()> {
    let root = open_root(root)?;
    let mut writer = Writer::new(out);
    let below = match path.as_os_str().is_empty() {
        true => open_beneath(root.as_fd(), Path::new("."), path),
        false => open_beneath(root.as_fd(), path, path),
    };
    match below {
        Ok(directory) => pack_directory(&mut writer, directory, &PathBuf::new(), 0)?,
        Err(ArchiveError::NotADirectory(_)) => {
            let parent = path.parent().unwrap_or(Path::new(""));
            let parent = match parent.as_os_str().is_empty() {
                true => root,
                false => open_beneath(root.as_fd(), parent, path)?,
            };
            let name = path.file_name().unwrap_or_default();
            pack_entry(&mut writer, &parent, name, Path::new(name), 0)?;
        }
        Err(error) => return Err(error),
    }
    writer.finish().map_err(ArchiveError::Io)?;
    Ok(())
}

fn pack_directory(
    writer: &mut Writer<impl Write>,
    directory: OwnedFd,
    name: &Path,
    depth: usize,
) -> Result<()> {
    if depth > DEEPEST {
        let why = "it is nested too deeply";
        return Err(ArchiveError::Refused {
            name: name.into(),
            why,
        });
    }
    let mut names: Vec<OsString> = Vec::new();
    for entry in Dir::read_from(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    names.sort();
    for entry in names {
        let path = name.join(&entry);
        pack_entry(writer, &directory, &entry, &path, depth)?;
    }
    Ok(())
}

/// Adds one entry of a directory to the archive. Leaves out an entry that is
/// deleted or replaced while it is read.
fn pack_entry(
    writer: &mut Writer<impl Write>,
    directory: &OwnedFd,
    entry: &OsStr,
    path: &Path,
    depth: usize,
) -> Result<()> {
    let stat = match rustix::fs::statat(directory, entry, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        stat => stat.map_err(failed)?,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => pack_file(writer, directory, entry, path),
        FileType::Directory => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let below = match rustix::fs::openat(directory, entry, flags, Mode::empty()) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                below => below.map_err(failed)?,
            };
            append(writer, &stat, HeadKind::Directory, path, io::empty())?;
            pack_directory(writer, below, path, depth + 1)
        }
        FileType::Symlink => {
            let target = match rustix::fs::readlinkat(directory, entry, Vec::new()) {
                Err(Errno::NOENT | Errno::INVAL) => return Ok(()),
                target => target.map_err(failed)?,
            };
            let kind = HeadKind::Symlink(target.as_bytes());
            append(writer, &stat, kind, path, io::empty())
        }
        _ => Ok(()),
    }
}

fn pack_file(
    writer: &mut Writer<impl Write>,
    directory: &OwnedFd,
    entry: &OsStr,
    path: &Path,
) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, entry, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(()),
        file => file.map_err(failed)?,
    };
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    let size = stat.st_size as u64;
    // The content must have exactly the size in the header. If the file changes
    // meanwhile, it is cut or padded with zeros.
    let content = File::from(file).chain(io::repeat(0)).take(size);
    append(writer, &stat, HeadKind::File(size), path, content)
}

fn append(
    writer: &mut Writer<impl Write>,
    stat: &Stat,
    kind: HeadKind<'_>,
    path: &Path,
    content: impl Read,
) -> Result<()> {
    let nanos = u32::try_from(stat.st_mtime_nsec).ok();
    let modified = nanos.and_then(|nanos| Timestamp::new(stat.st_mtime, nanos));
    let strange = || ArchiveError::Io(io::ErrorKind::InvalidData.into());
    let head = Head {
        name: path.as_os_str().as_bytes(),
        kind,
        mode: stat.st_mode & 0o777,
        modified: modified.ok_or_else(strange)?,
    };
    writer.append(&head, content).map_err(ArchiveError::Io)
}
