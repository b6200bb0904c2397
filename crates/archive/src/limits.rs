use elevo_core::{MAX_NAME_BYTES, MAX_PATH_BYTES};

/// How much an archive may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files, holes and what comes twice included. All headers
    /// together may have as many again, and 16 MiB.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
    /// Names in a path.
    pub depth: usize,
    /// Bytes of one name.
    pub name_bytes: usize,
}

impl Limits {
    /// What a tree can hold at all.
    pub const LARGEST: Self = Self {
        bytes: u64::MAX,
        entries: u64::MAX,
        depth: MAX_PATH_BYTES / 2,
        name_bytes: MAX_NAME_BYTES,
    };
}
