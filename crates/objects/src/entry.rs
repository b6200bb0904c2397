//! The leaf items of the three trees: what a directory says of a name, what a
//! time tree says of it, and what a chunk list says of a stretch of a file.

use elevo_core::{MAX_NAME_BYTES, Name, Timestamp};

use crate::chunk::{MAX_CHUNK, MIN_CHUNK};
use crate::codec::{DecodeError, Reader, Result, put_bytes, put_number, put_signed};
use crate::hash::{Hash, Kind};
use crate::node::{Item, Totals};

/// The longest target of a symbolic link: what Linux allows.
pub const MAX_LINK_BYTES: usize = 4095;

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

    fn read(reader: &mut Reader) -> Result<Self> {
        Ok(Self(reader.number_up_to(0o777)? as u16))
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
        /// Its length, 1 to [`MAX_CHUNK`].
        size: u64,
    },
    /// Two chunks or more, listed by a tree.
    List {
        /// The root node of the chunk list.
        hash: Hash,
        /// Their length together, more than [`MIN_CHUNK`].
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
}

/// A leaf item of a directory tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirItem {
    /// The name.
    pub name: Name,
    /// What it stands for.
    pub entry: Entry,
}

/// A leaf item of a time tree, beside the directory entry of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeItem {
    /// The name.
    pub name: Name,
    /// What is known of its times.
    pub entry: TimeEntry,
}

/// What is known of the times of a name. At least one of the two is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeEntry {
    /// When it was last modified.
    pub modified: Option<Timestamp>,
    /// For a directory: the root node of the times of what is in it.
    pub children: Option<Hash>,
}

/// A leaf item of a chunk list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkItem {
    /// The chunk.
    pub hash: Hash,
    /// Its length, 1 to [`MAX_CHUNK`].
    pub size: u64,
}

mod tag {
    pub(super) const EMPTY_FILE: u8 = 1;
    pub(super) const CHUNK_FILE: u8 = 2;
    pub(super) const LIST_FILE: u8 = 3;
    pub(super) const EMPTY_DIRECTORY: u8 = 4;
    pub(super) const DIRECTORY: u8 = 5;
    pub(super) const LINK: u8 = 6;

    pub(super) const MODIFIED: u8 = 1;
    pub(super) const CHILDREN: u8 = 2;
}

fn read_name(reader: &mut Reader) -> Result<Name> {
    Name::new(reader.bytes(MAX_NAME_BYTES)?).map_err(|_| DecodeError::Text)
}

fn name_spread(name: &Name) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name)
}

impl Item for DirItem {
    const KIND: Kind = Kind::Directory;
    type Key = Name;

    fn key(&self) -> &Name {
        &self.name
    }

    fn spread(&self) -> u64 {
        name_spread(&self.name)
    }

    fn child_spread(key: &Name, _: &Hash) -> u64 {
        name_spread(key)
    }

    fn totals(&self) -> Totals {
        match &self.entry {
            Entry::File { content, .. } => Totals {
                items: 1,
                count: 1,
                bytes: content.size(),
            },
            Entry::Directory { tree, .. } => Totals {
                items: 1,
                count: tree.count.saturating_add(1),
                bytes: tree.bytes,
            },
            Entry::Link(_) => Totals {
                items: 1,
                count: 1,
                bytes: 0,
            },
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Self::encode_key(&self.name, out);
        match &self.entry {
            Entry::File { mode, content } => {
                let (tag, hash) = match content {
                    Content::Empty => (tag::EMPTY_FILE, None),
                    Content::Chunk { hash, .. } => (tag::CHUNK_FILE, Some(hash)),
                    Content::List { hash, .. } => (tag::LIST_FILE, Some(hash)),
                };
                out.push(tag);
                put_number(out, mode.bits().into());
                if let Some(hash) = hash {
                    put_number(out, content.size());
                    out.extend_from_slice(hash.as_bytes());
                }
            }
            Entry::Directory { mode, tree } => {
                out.push(if tree.root.is_some() {
                    tag::DIRECTORY
                } else {
                    tag::EMPTY_DIRECTORY
                });
                put_number(out, mode.bits().into());
                if let Some(root) = tree.root {
                    put_number(out, tree.count);
                    put_number(out, tree.bytes);
                    out.extend_from_slice(root.as_bytes());
                }
            }
            Entry::Link(link) => {
                out.push(tag::LINK);
                put_number(out, link.size);
                out.extend_from_slice(link.hash.as_bytes());
            }
        }
    }

    fn decode(reader: &mut Reader) -> Result<Self> {
        let name = read_name(reader)?;
        let tag = reader.byte()?;
        let entry = match tag {
            tag::EMPTY_FILE => Entry::File {
                mode: Mode::read(reader)?,
                content: Content::Empty,
            },
            tag::CHUNK_FILE => {
                let mode = Mode::read(reader)?;
                let size = chunk_size(reader)?;
                Entry::File {
                    mode,
                    content: Content::Chunk {
                        hash: reader.hash()?,
                        size,
                    },
                }
            }
            tag::LIST_FILE => {
                let mode = Mode::read(reader)?;
                let size = reader.number()?;
                if size <= MIN_CHUNK as u64 {
                    return Err(DecodeError::Tag);
                }
                Entry::File {
                    mode,
                    content: Content::List {
                        hash: reader.hash()?,
                        size,
                    },
                }
            }
            tag::EMPTY_DIRECTORY => Entry::Directory {
                mode: Mode::read(reader)?,
                tree: Tree::EMPTY,
            },
            tag::DIRECTORY => {
                let mode = Mode::read(reader)?;
                let count = reader.number()?;
                if count == 0 {
                    return Err(DecodeError::Tag);
                }
                let bytes = reader.number()?;
                let root = Some(reader.hash()?);
                Entry::Directory {
                    mode,
                    tree: Tree { root, count, bytes },
                }
            }
            tag::LINK => {
                let size = reader.number_up_to(MAX_LINK_BYTES as u64)?;
                if size == 0 {
                    return Err(DecodeError::Tag);
                }
                Entry::Link(Link {
                    hash: reader.hash()?,
                    size,
                })
            }
            _ => return Err(DecodeError::Tag),
        };
        Ok(Self { name, entry })
    }

    fn encode_key(key: &Name, out: &mut Vec<u8>) {
        put_bytes(out, key);
    }

    fn decode_key(reader: &mut Reader) -> Result<Name> {
        read_name(reader)
    }

    fn encode_totals(totals: &Totals, out: &mut Vec<u8>) {
        put_number(out, totals.items);
        put_number(out, totals.count);
        put_number(out, totals.bytes);
    }

    fn decode_totals(reader: &mut Reader) -> Result<Totals> {
        Ok(Totals {
            items: reader.number()?,
            count: reader.number()?,
            bytes: reader.number()?,
        })
    }
}

impl Item for TimeItem {
    const KIND: Kind = Kind::Times;
    type Key = Name;

    fn key(&self) -> &Name {
        &self.name
    }

    fn spread(&self) -> u64 {
        name_spread(&self.name)
    }

    fn child_spread(key: &Name, _: &Hash) -> u64 {
        name_spread(key)
    }

    fn totals(&self) -> Totals {
        Totals {
            items: 1,
            count: 0,
            bytes: 0,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Self::encode_key(&self.name, out);
        let TimeEntry { modified, children } = self.entry;
        let modified_flag = if modified.is_some() { tag::MODIFIED } else { 0 };
        let children_flag = if children.is_some() { tag::CHILDREN } else { 0 };
        out.push(modified_flag | children_flag);
        if let Some(time) = modified {
            put_signed(out, time.seconds());
            put_number(out, time.nanos().into());
        }
        if let Some(hash) = children {
            out.extend_from_slice(hash.as_bytes());
        }
    }

    fn decode(reader: &mut Reader) -> Result<Self> {
        let name = read_name(reader)?;
        let flags = reader.byte()?;
        if flags == 0 || flags & !(tag::MODIFIED | tag::CHILDREN) != 0 {
            return Err(DecodeError::Tag);
        }
        let modified = if flags & tag::MODIFIED != 0 {
            let seconds = reader.signed()?;
            let nanos = reader.number_up_to(999_999_999)? as u32;
            Some(Timestamp::new(seconds, nanos).ok_or(DecodeError::Number)?)
        } else {
            None
        };
        let children = if flags & tag::CHILDREN != 0 {
            Some(reader.hash()?)
        } else {
            None
        };
        Ok(Self {
            name,
            entry: TimeEntry { modified, children },
        })
    }

    fn encode_key(key: &Name, out: &mut Vec<u8>) {
        put_bytes(out, key);
    }

    fn decode_key(reader: &mut Reader) -> Result<Name> {
        read_name(reader)
    }

    fn encode_totals(totals: &Totals, out: &mut Vec<u8>) {
        put_number(out, totals.items);
    }

    fn decode_totals(reader: &mut Reader) -> Result<Totals> {
        Ok(Totals {
            items: reader.number()?,
            count: 0,
            bytes: 0,
        })
    }
}

impl Item for ChunkItem {
    const KIND: Kind = Kind::ChunkList;
    type Key = ();

    fn key(&self) -> &() {
        &()
    }

    fn spread(&self) -> u64 {
        self.hash.prefix()
    }

    fn child_spread((): &(), node: &Hash) -> u64 {
        node.prefix()
    }

    fn totals(&self) -> Totals {
        Totals {
            items: 1,
            count: 0,
            bytes: self.size,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.size);
        out.extend_from_slice(self.hash.as_bytes());
    }

    fn decode(reader: &mut Reader) -> Result<Self> {
        let size = chunk_size(reader)?;
        Ok(Self {
            hash: reader.hash()?,
            size,
        })
    }

    fn encode_key((): &(), _: &mut Vec<u8>) {}

    fn decode_key(_: &mut Reader) -> Result<()> {
        Ok(())
    }

    fn encode_totals(totals: &Totals, out: &mut Vec<u8>) {
        put_number(out, totals.items);
        put_number(out, totals.bytes);
    }

    fn decode_totals(reader: &mut Reader) -> Result<Totals> {
        Ok(Totals {
            items: reader.number()?,
            count: 0,
            bytes: reader.number()?,
        })
    }
}

fn chunk_size(reader: &mut Reader) -> Result<u64> {
    match reader.number_up_to(MAX_CHUNK as u64)? {
        0 => Err(DecodeError::Number),
        size => Ok(size),
    }
}
