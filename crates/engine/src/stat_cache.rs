//! What the file system said of every file when a directory was last read, so
//! that the next time only files that changed are read.
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
//! A scan adds pages and records behind `end`, and then writes the older slot.
//! Pages end at names that their hashes choose, so that a change leaves the
//! other pages of its directory as they are: it costs one page, and a page and
//! a record of each directory above. When more than half is of earlier states,
//! the rest is copied to a new file.
//!
//! A file is trusted to be unchanged if all of it is equal, and if it was last
//! changed before the scan that noted it began, by the clock of the file system
//! itself: whatever is written later then has a later time. A cache is never
//! needed: one that is missing, torn or damaged counts as empty. Nothing is
//! synced, for the same reason; what a power loss leaves is told by checksums.

mod anything;
mod format;
mod read;
mod write;

use rustix::fs::Stat;

#[doc(hidden)]
pub use anything::read_any_stat_cache;
pub(crate) use read::SeenDirectory;
pub use read::StatCache;
pub(crate) use write::DirectoryToSee;
pub use write::NewStatCache;

use crate::disk;

/// What tells a file from itself after a change. Without the device: that of
/// a snapshot of a file system is another, and a directory that is scanned is
/// all on one.
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

    /// Whether a snapshot would say the same of a directory itself.
    pub(crate) fn is_kept_alike(&self, other: &Self) -> bool {
        self.mode == other.mode && self.modified == other.modified
    }

    /// The same as nothing will be.
    pub(crate) const fn unsure(self) -> Self {
        Self {
            changed: (0, 0),
            inode: 0,
            ..self
        }
    }
}

/// What was seen of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) fingerprint: Fingerprint,
    /// Whether it has attributes that a snapshot does not keep.
    pub(crate) has_attributes: bool,
    /// What was seen in it, if it is a directory.
    pub(crate) below: Option<Noted>,
}

/// Where the record of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    offset: u64,
    length: u32,
    /// Bytes of it and of all that it leads to.
    live: u64,
}

#[cfg(test)]
mod tests;
