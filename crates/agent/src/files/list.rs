//! Lists directories.

use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use elevo_agent_proto::v1::{FileEntries, FileEntry, FileFailure, ListFiles};
use elevo_agent_proto::{MAX_PIECE, Message};
use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;

use super::resolve::{self, stat_in};
use super::{Outcome, failed};

/// Maximum number of entries in a page.
const MAX_LIMIT: usize = 10_000;

/// Maximum time to read a directory.
const TIME_TO_READ: Duration = Duration::from_secs(10);

/// A page of the entries of a directory, by name.
pub(super) struct Listed {
    /// The entries, in messages that a tunnel can carry.
    pub(super) pieces: Vec<FileEntries>,
    pub(super) has_more: bool,
}

/// Lists a page of a directory. Reads all names, but holds only those of the
/// page.
pub(super) fn list(path: &Path, wish: &ListFiles) -> Outcome<Listed> {
    let limit = (wish.limit as usize).clamp(1, MAX_LIMIT);
    let deadline = Instant::now() + TIME_TO_READ;
    let directory = resolve::name(path, OFlags::DIRECTORY)?;
    let readable = resolve::reopen(&directory, OFlags::RDONLY | OFlags::DIRECTORY);
    let readable = readable.map_err(failed)?;
    let mut names: BinaryHeap<Vec<u8>> = BinaryHeap::new();
    let mut has_more = false;
    for entry in Dir::read_from(&readable).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || name <= &wish.after[..] {
            continue;
        }
        if Instant::now() > deadline {
            return Err(FileFailure::TooLarge);
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
    let mut pieces = Pieces::default();
    for name in names.into_sorted_vec() {
        match stat_in(&directory, OsStr::from_bytes(&name)) {
            Ok(stat) => pieces.add(FileEntry {
                name: name.into(),
                stat: Some(stat),
            }),
            // Deleted meanwhile.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(Listed {
        pieces: pieces.all,
        has_more,
    })
}

#[derive(Default)]
struct Pieces {
    all: Vec<FileEntries>,
    /// Bytes of the last message.
    size: usize,
}

impl Pieces {
    fn add(&mut self, entry: FileEntry) {
        let size = entry.encoded_len() + 8;
        if self.all.is_empty() || self.size + size > MAX_PIECE {
            self.all.push(FileEntries::default());
            self.size = 0;
        }
        self.size += size;
        if let Some(last) = self.all.last_mut() {
            last.entries.push(entry);
        }
    }
}
