//! Items of directory trees.

use elevo_core::{MAX_NAME_BYTES, Name};

use crate::chunk::{MAX_CHUNK, MIN_CHUNK};
use crate::codec::{DecodeError, Reader, Result, put_bytes, put_number};
use crate::entry::{Content, Entry, Link, MAX_FILE_BYTES, MAX_LINK_BYTES, Mode, Tree};
use crate::hash::{Hash, Kind};
use crate::node::sealed::Sealed;
use crate::node::{Item, Totals};

/// A leaf item of a directory tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirItem {
    /// Name of the entry.
    pub name: Name,
    /// The entry.
    pub entry: Entry,
}

mod tag {
    pub(super) const EMPTY_FILE: u8 = 1;
    pub(super) const CHUNK_FILE: u8 = 2;
    pub(super) const LIST_FILE: u8 = 3;
    pub(super) const EMPTY_DIRECTORY: u8 = 4;
    pub(super) const DIRECTORY: u8 = 5;
    pub(super) const LINK: u8 = 6;
}

/// Hash that decides whether a name ends its node: fast rather than
/// cryptographic, because malicious names only harm their owner.
pub(crate) fn name_spread(name: &Name) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name)
}

pub(crate) fn put_name(out: &mut Vec<u8>, name: &Name) {
    put_bytes(out, name);
}

pub(crate) fn read_name(reader: &mut Reader) -> Result<Name> {
    Name::new(reader.bytes(MAX_NAME_BYTES)?).map_err(|_| DecodeError::Text)
}

impl Sealed for DirItem {}

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
        let (below, bytes) = match &self.entry {
            Entry::File { content, .. } => (0, content.size()),
            Entry::Directory { tree, .. } => (tree.count, tree.bytes),
            Entry::Link(_) => (0, 0),
        };
        Totals {
            items: 1,
            count: below.saturating_add(1),
            bytes,
        }
    }

    fn totals_fit(totals: &Totals, _: bool) -> bool {
        totals.count >= totals.items
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_name(out, &self.name);
        match &self.entry {
            Entry::File { mode, content } => put_file(out, *mode, content),
            Entry::Directory { mode, tree } => put_directory(out, *mode, tree),
            Entry::Link(link) => {
                out.push(tag::LINK);
                put_number(out, link.size);
                out.extend_from_slice(link.hash.as_bytes());
            }
        }
    }

    fn decode(reader: &mut Reader) -> Result<Self> {
        let name = read_name(reader)?;
        let entry = match reader.byte()? {
            tag @ (tag::EMPTY_FILE | tag::CHUNK_FILE | tag::LIST_FILE) => {
                let mode = read_mode(reader)?;
                let content = read_content(reader, tag)?;
                Entry::File { mode, content }
            }
            tag @ (tag::EMPTY_DIRECTORY | tag::DIRECTORY) => {
                let mode = read_mode(reader)?;
                let tree = read_tree(reader, tag)?;
                Entry::Directory { mode, tree }
            }
            tag::LINK => {
                let size = reader.number_within(1, MAX_LINK_BYTES as u64)?;
                let hash = reader.hash()?;
                Entry::Link(Link { hash, size })
            }
            _ => return Err(DecodeError::Tag),
        };
        Ok(Self { name, entry })
    }

    fn encode_key(key: &Name, out: &mut Vec<u8>) {
        put_name(out, key);
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

fn put_file(out: &mut Vec<u8>, mode: Mode, content: &Content) {
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

fn put_directory(out: &mut Vec<u8>, mode: Mode, tree: &Tree) {
    let Some(root) = tree.root else {
        out.push(tag::EMPTY_DIRECTORY);
        put_number(out, mode.bits().into());
        return;
    };
    out.push(tag::DIRECTORY);
    put_number(out, mode.bits().into());
    put_number(out, tree.count);
    put_number(out, tree.bytes);
    out.extend_from_slice(root.as_bytes());
}

fn read_mode(reader: &mut Reader) -> Result<Mode> {
    Ok(Mode::from_bits(reader.number_up_to(0o777)? as u32))
}

fn read_content(reader: &mut Reader, tag: u8) -> Result<Content> {
    match tag {
        tag::EMPTY_FILE => Ok(Content::Empty),
        tag::CHUNK_FILE => {
            let size = reader.number_within(1, MAX_CHUNK as u64)?;
            let hash = reader.hash()?;
            Ok(Content::Chunk { hash, size })
        }
        _ => {
            let size = reader.number_within(MIN_CHUNK as u64 + 1, MAX_FILE_BYTES)?;
            let hash = reader.hash()?;
            Ok(Content::List { hash, size })
        }
    }
}

fn read_tree(reader: &mut Reader, tag: u8) -> Result<Tree> {
    if tag == tag::EMPTY_DIRECTORY {
        return Ok(Tree::EMPTY);
    }
    let count = reader.number_within(1, u64::MAX)?;
    let bytes = reader.number()?;
    let root = Some(reader.hash()?);
    Ok(Tree { root, count, bytes })
}
