//! Entries of directories.

use crate::hash::Hash;

/// Maximum length of the target of a symbolic link: the limit of Linux.
pub const MAX_LINK_BYTES: usize = 4095;
/// Maximum size of a file: the largest offset of a file system.
pub const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// Permission bits, `rwxrwxrwx`. Setuid, setgid and sticky are never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode(u16);

impl Mode {
    /// Mode of an ordinary file, `rw-r--r--`.
    pub const FILE: Self = Self(0o644);
    /// Mode of an ordinary directory or program, `rwxr-xr-x`.
    pub const EXECUTABLE: Self = Self(0o755);

    /// Returns the permission bits of `bits`; the others are dropped.
    pub const fn from_bits(bits: u32) -> Self {
        Self((bits & 0o777) as u16)
    }

    /// The bits, within `0o777`.
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }
}

/// The entry of a name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File {
        /// Permission bits.
        mode: Mode,
        /// Content of the file.
        content: Content,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: Mode,
        /// Content of the directory.
        tree: Tree,
    },
    /// A symbolic link.
    Link(Link),
}

/// The content of a file, referred to by its directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// No bytes.
    Empty,
    /// One chunk.
    Chunk {
        /// Hash of the chunk.
        hash: Hash,
        /// Length of the chunk, 1 to [`MAX_CHUNK`](crate::MAX_CHUNK).
        size: u64,
    },
    /// Two or more chunks, listed by a tree.
    List {
        /// Hash of the root node of the chunk list.
        hash: Hash,
        /// Total length of the chunks, more than
        /// [`MIN_CHUNK`](crate::MIN_CHUNK) and at most [`MAX_FILE_BYTES`].
        size: u64,
    },
}

impl Content {
    /// Size of the file in bytes.
    pub const fn size(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Chunk { size, .. } | Self::List { size, .. } => *size,
        }
    }
}

/// The target of a symbolic link: a chunk of 1 to [`MAX_LINK_BYTES`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Hash of the chunk with the target.
    pub hash: Hash,
    /// Length of the target in bytes.
    pub size: u64,
}

/// The content of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    /// Hash of the root node of its entries; `None` for an empty directory.
    pub root: Option<Hash>,
    /// Number of entries at every depth.
    pub count: u64,
    /// Total bytes of the files at every depth.
    pub bytes: u64,
}

impl Tree {
    /// An empty directory.
    pub const EMPTY: Self = Self {
        root: None,
        count: 0,
        bytes: 0,
    };

    /// Whether a tree with these values can exist.
    pub(crate) const fn is_coherent(&self) -> bool {
        match self.root {
            Some(_) => self.count > 0,
            None => self.count == 0 && self.bytes == 0,
        }
    }
}
