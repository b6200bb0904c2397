//! The names of a directory on disk.

use std::io;
use std::os::fd::BorrowedFd;

use elevo_core::Name;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use crate::stat_cache::CachedDirectory;

/// The names in a directory, sorted. All of them are in memory, packed (a
/// million take some thirty megabytes): file systems list them in no useful
/// order.
#[derive(Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    entries: Vec<Packed>,
}

/// One name: a range of `bytes`.
struct Packed {
    start: usize,
    length: u8,
    kind: FileType,
}

impl Names {
    /// Lists a directory.
    pub(super) fn read(directory: BorrowedFd<'_>) -> io::Result<Self> {
        let mut names = Self::default();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match kind_of(directory, name)? {
                    Some(kind) => kind,
                    None => continue,
                },
                kind => kind,
            };
            names.push(name, kind)?;
        }
        let Self { bytes, entries } = &mut names;
        entries.sort_unstable_by(|a, b| a.name(bytes).cmp(b.name(bytes)));
        Ok(names)
    }

    /// Returns the names recorded for a directory; `None` if a part of the
    /// record is damaged.
    pub(super) fn seen(seen: &mut CachedDirectory) -> Option<Self> {
        let mut names = Self::default();
        let is_whole = seen.each(|name, mode| {
            let last = names.entries.last().map(|last| last.name(&names.bytes));
            last.is_none_or(|last| last < name)
                && names.push(name, FileType::from_raw_mode(mode)).is_ok()
        });
        is_whole.then_some(names)
    }

    fn push(&mut self, name: &[u8], kind: FileType) -> rustix::io::Result<()> {
        let length = u8::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)?;
        self.entries.push(Packed {
            start: self.bytes.len(),
            length,
            kind,
        });
        self.bytes.extend_from_slice(name);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes the names that are in `left_out`.
    pub(super) fn leave_out(&mut self, left_out: &[Name]) {
        for name in left_out {
            if let Ok(at) = self.find(name) {
                self.entries.remove(at);
            }
        }
    }

    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.find(name).is_ok()
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        let Self { bytes, entries } = self;
        entries.binary_search_by(|entry| entry.name(bytes).cmp(name))
    }

    pub(super) fn get(&self, at: usize) -> &[u8] {
        self.entries[at].name(&self.bytes)
    }

    /// Keeps the names for which `keep` returns true, given the index and the
    /// name.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(usize, &[u8]) -> bool) {
        let Self { bytes, entries } = self;
        let mut at = 0;
        entries.retain(|entry| {
            at += 1;
            keep(at - 1, entry.name(bytes))
        });
    }

    /// Returns the window of `size` names at index `at`, which is shorter at
    /// the end.
    pub(super) fn window(&self, at: usize, size: usize) -> io::Result<Vec<(Name, FileType)>> {
        let window = self.entries.chunks(size).nth(at).unwrap_or_default();
        let named = |entry: &Packed| {
            let name = Name::copy_from(entry.name(&self.bytes));
            Ok((name.map_err(io::Error::other)?, entry.kind))
        };
        window.iter().map(named).collect()
    }

    /// Number of windows of `size` names.
    pub(super) fn windows(&self, size: usize) -> usize {
        self.entries.len().div_ceil(size)
    }

    /// The names, `size` at a time, without copying them.
    pub(super) fn slices(
        &self,
        size: usize,
    ) -> impl Iterator<Item = impl ExactSizeIterator<Item = (&[u8], FileType)>> {
        let named = |entry: &Packed| (entry.name(&self.bytes), entry.kind);
        let windows = self.entries.chunks(size);
        windows.map(move |window| window.iter().map(named))
    }
}

impl Packed {
    fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.start + usize::from(self.length)]
    }
}

fn kind_of(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<FileType>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
