//! Limits of an archive.

use elevo_core::{MAX_NAME_BYTES, MAX_PATH_BYTES};

/// Limits of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of all files, including holes and repeated entries. All
    /// headers together may have as many bytes plus 16 MiB.
    pub bytes: u64,
    /// Maximum number of files, directories and links.
    pub entries: u64,
    /// Maximum number of names in a path.
    pub depth: usize,
    /// Maximum bytes of one name.
    pub name_bytes: usize,
}

impl Limits {
    /// The limits of a tree.
    pub const LARGEST: Self = Self {
        bytes: u64::MAX,
        entries: u64::MAX,
        depth: MAX_PATH_BYTES / 2,
        name_bytes: MAX_NAME_BYTES,
    };
}
