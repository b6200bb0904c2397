//! File metadata from the last read of a directory, so that the next read opens
//! only files that changed.
//!
//! ```text
//! "elevostat" 3                               magic, version
//! slot slot                                   the last two states: the one with the higher number counts
//! page | record …                             in any order, never changed
//!
//! slot:   number, end, where the record of the root is, snapshot, checksum
//! page:   item … checksum                     some names of one directory, in their order
//! record: tree, times, live bytes, { page's place, checksum } …, checksum
//! item:   name, mode, size, modified, changed, inode, flags, for a directory: where its record is
//! ```
//!
//! A scan appends pages and records after `end`, and then writes the older
//! slot. Page boundaries depend on the hashes of names, so that a change leaves
//! the other pages of its directory unchanged: it costs one page, and a page
//! and a record of each directory above. When more than half of the file
//! belongs to earlier states, the rest is copied to a new file.
//!
//! A file is taken as unchanged if all metadata is equal, and if it was last
//! changed before the scan that recorded it began, by the clock of the file
//! system itself: a later write then has a later time. A cache is never
//! required: a missing, incomplete or damaged one counts as empty. For the same
//! reason nothing is synced; checksums detect the damage of a power loss.

mod format;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod read;
mod write;

use rustix::fs::Stat;

#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzing::read_any_stat_cache;
pub(crate) use read::CachedDirectory;
pub use read::StatCache;
pub(crate) use write::DirectoryWriter;
pub use write::NewStatCache;

use crate::disk;

/// The metadata that a change of a file alters. The device is not part of it: a
/// snapshot of a file system has another device number, and a scanned directory
/// is all on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    mode: u32,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
    inode: u64,
}

impl Fingerprint {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            mode: disk::mode(stat),
            size: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
            inode: stat.st_ino,
        }
    }

    /// Whether a snapshot stores the same mode and time for directories with
    /// these fingerprints.
    pub(crate) fn has_equal_mode_and_time(&self, other: &Self) -> bool {
        self.mode == other.mode && self.modified == other.modified
    }

    /// A fingerprint that never equals that of a file: the file is read again.
    pub(crate) const fn unsure(self) -> Self {
        Self {
            changed: (0, 0),
            inode: 0,
            ..self
        }
    }
}

/// Recorded metadata of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedStat {
    pub(crate) fingerprint: Fingerprint,
    /// Whether it has attributes that a snapshot does not store.
    pub(crate) has_attributes: bool,
    /// The record of its entries, if it is a directory.
    pub(crate) below: Option<RecordRef>,
}

/// Position of the record of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordRef {
    offset: u64,
    length: u32,
    /// Bytes of the record and of everything it leads to.
    live: u64,
}

#[cfg(test)]
mod tests;
