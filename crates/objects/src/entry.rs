//! What a name in a directory stands for.

use crate::hash::Hash;

/// The longest target of a symbolic link: what Linux allows.
pub const MAX_LINK_BYTES: usize = 4095;
/// The largest file: the last offset a file system can name.
pub const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// Permission bits, `rwxrwxrwx`. Setuid, setgid and sticky are never kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode(u16);

impl Mode {
    /// An ordinary file, `rw-r--r--`.
    pub const FILE: Self = Self(0o644);
    /// An ordinary directory or program, `rwxr-xr-x`.
    pub const EXECUTABLE: Self = Self(0o755);

    /// The permission bits of `bits`; the rest is dropped.
    pub const fn from_bits(bits: u32) -> Self {
        Self((bits & 0o777) as u16)
    }

    /// The bits, within `0o777`.
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }
}

/// What a name in a directory stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A regular file.
    File {
        /// Its permission bits.
        mode: Mode,
        /// Where its bytes are.
        content: Content,
    },
    /// A directory.
    Directory {
        /// Its permission bits.
        mode: Mode,
        /// What is in it.
        tree: Tree,
    },
    /// A symbolic link.
    Link(Link),
}

/// The bytes of a file, named directly by its directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// No bytes.
    Empty,
    /// One chunk.
    Chunk {
        /// The chunk.
        hash: Hash,
        /// Its length, 1 to [`MAX_CHUNK`](crate::MAX_CHUNK).
        size: u64,
    },
    /// Two chunks or more, listed by a tree.
    List {
        /// The root node of the chunk list.
        hash: Hash,
        /// Their length together, more than [`MIN_CHUNK`](crate::MIN_CHUNK) and at most
        /// [`MAX_FILE_BYTES`].
        size: u64,
    },
}

impl Content {
    /// How many bytes the file has.
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
    /// The chunk with the target's bytes.
    pub hash: Hash,
    /// Their number.
    pub size: u64,
}

/// The contents of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    /// The root node of its entries; `None` when it is empty.
    pub root: Option<Hash>,
    /// Entries at every depth below.
    pub count: u64,
    /// Bytes of all files at every depth below.
    pub bytes: u64,
}

impl Tree {
    /// A directory with nothing in it.
    pub const EMPTY: Self = Self {
        root: None,
        count: 0,
        bytes: 0,
    };

    /// Whether there is a tree that this can describe.
    pub(crate) const fn is_coherent(&self) -> bool {
        match self.root {
            Some(_) => self.count > 0,
            None => self.count == 0 && self.bytes == 0,
        }
    }
}
