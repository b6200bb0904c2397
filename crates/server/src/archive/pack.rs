//! Files into an archive.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use super::{ArchiveError, DEEPEST, Result, failed, open_beneath, open_root};

/// Writes what is at `path` as a tar. Names start at `path`: a directory's
/// content, or a file by its own name. Sockets, pipes and devices are left out.
pub(crate) fn pack(root: &Path, path: &Path, out: impl Write) -> Result<()> {
    let root = open_root(root)?;
    let mut builder = Builder::new(out);
    let below = match path.as_os_str().is_empty() {
        true => open_beneath(root.as_fd(), Path::new("."), path),
        false => open_beneath(root.as_fd(), path, path),
    };
    match below {
        Ok(directory) => pack_directory(&mut builder, directory, &PathBuf::new(), 0)?,
        Err(ArchiveError::NotADirectory(_)) => {
            let parent = path.parent().unwrap_or(Path::new(""));
            let parent = match parent.as_os_str().is_empty() {
                true => root,
                false => open_beneath(root.as_fd(), parent, path)?,
            };
            let name = path.file_name().unwrap_or_default();
            pack_entry(&mut builder, &parent, name, Path::new(name), 0)?;
        }
        Err(error) => return Err(error),
    }
    let mut out = builder.into_inner().map_err(ArchiveError::Io)?;
    out.flush().map_err(ArchiveError::Io)
}

/// Whether there is something at `path` that can be packed.
pub(crate) fn exists(root: &Path, path: &Path) -> Result<()> {
    let root = open_root(root)?;
    let parent = match path.parent() {
        None => return Ok(()),
        Some(parent) if parent.as_os_str().is_empty() => root,
        Some(parent) => open_beneath(root.as_fd(), parent, path)?,
    };
    let name = path.file_name().unwrap_or_default();
    match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(()),
        Err(Errno::NOENT) => Err(ArchiveError::NoSuchPath(path.into())),
        Err(error) => Err(failed(error)),
    }
}

fn pack_directory(
    builder: &mut Builder<impl Write>,
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
        pack_entry(builder, &directory, &entry, &path, depth)?;
    }
    Ok(())
}

/// What has gone meanwhile is left out.
fn pack_entry(
    builder: &mut Builder<impl Write>,
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
        FileType::RegularFile => pack_file(builder, directory, entry, path),
        FileType::Directory => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let below = match rustix::fs::openat(directory, entry, flags, Mode::empty()) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                below => below.map_err(failed)?,
            };
            append(builder, &stat, EntryType::Directory, path, 0, io::empty())?;
            pack_directory(builder, below, path, depth + 1)
        }
        FileType::Symlink => {
            let target = match rustix::fs::readlinkat(directory, entry, Vec::new()) {
                Err(Errno::NOENT | Errno::INVAL) => return Ok(()),
                target => target.map_err(failed)?,
            };
            let mut header = header(&stat, EntryType::Symlink, 0);
            let target = OsString::from_vec(target.into_bytes());
            builder
                .append_link(&mut header, path, target)
                .map_err(ArchiveError::Io)
        }
        _ => Ok(()),
    }
}

fn pack_file(
    builder: &mut Builder<impl Write>,
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
    // Exactly as long as the header says, whatever becomes of the file.
    let content = File::from(file).chain(io::repeat(0)).take(size);
    append(builder, &stat, EntryType::Regular, path, size, content)
}

fn append(
    builder: &mut Builder<impl Write>,
    stat: &Stat,
    kind: EntryType,
    path: &Path,
    size: u64,
    content: impl Read,
) -> Result<()> {
    let mut header = header(stat, kind, size);
    let appended = builder.append_data(&mut header, path, content);
    appended.map_err(ArchiveError::Io)
}

fn header(stat: &Stat, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o777);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or_default());
    header.set_size(size);
    header
}
