//! Lists directories.

use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::platform::files::stat::{FileStat, Kind};
use crate::platform::files::{Result, Root, failed};

/// A page of the entries of a directory, ordered by name.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Names and metadata.
    pub(crate) entries: Vec<(Vec<u8>, FileStat)>,
    /// The last name of the page, if there are more.
    pub(crate) next: Option<Vec<u8>>,
}

impl Root {
    /// Returns the metadata of the file at a path, which is not followed if it
    /// is a link.
    pub(crate) fn stat(&self, path: &Path) -> Result<FileStat> {
        if path.as_os_str().is_empty() {
            let stat = rustix::fs::fstat(&self.directory);
            return Ok(FileStat::of(&stat.map_err(|error| failed(error, path))?));
        }
        let (directory, name) = self.parent(path)?;
        stat_in(&directory, name).map_err(|error| failed(error, path))
    }

    /// Lists the first `limit` entries of a directory whose names are after
    /// `after`. Reads all names, but holds only those of the page.
    pub(crate) fn list(&self, path: &Path, after: &[u8], limit: usize) -> Result<Listed> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        let directory = self.resolve(path, flags)?;
        let failed = |error| failed(error, path);
        let mut names: BinaryHeap<Vec<u8>> = BinaryHeap::new();
        let mut has_more = false;
        for entry in Dir::read_from(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || name <= after {
                continue;
            }
            if names.len() == limit {
                has_more = true;
                // The heap has the largest name on top.
                match names.peek() {
                    Some(last) if name < last.as_slice() => drop(names.pop()),
                    _ => continue,
                }
            }
            names.push(name.to_vec());
        }
        let names = names.into_sorted_vec();
        let next = names.last().filter(|_| has_more).cloned();
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            match stat_in(&directory, OsStr::from_bytes(&name)) {
                Ok(stat) => entries.push((name, stat)),
                // Deleted meanwhile.
                Err(Errno::NOENT) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(Listed { entries, next })
    }
}

fn stat_in(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<FileStat> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let mut stat = FileStat::of(&stat);
    if stat.kind == Kind::Symlink {
        // The descriptor keeps metadata and target those of one link.
        let link = rustix::fs::openat(directory, name, flags, Mode::empty())?;
        stat = FileStat::of(&rustix::fs::fstat(&link)?);
        if stat.kind == Kind::Symlink {
            let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
            stat.target = Some(target.into_bytes());
        }
    }
    Ok(stat)
}
