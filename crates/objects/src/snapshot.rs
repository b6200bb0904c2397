//! Snapshots and their encoding.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use elevo_core::Timestamp;

use crate::FORMAT_VERSION;
use crate::codec::{DecodeError, Reader, Result, put_bytes, put_number, put_time};
use crate::entry::Tree;
use crate::hash::{Hash, InvalidHash, Kind};

const TYPE_BYTE: u8 = b's';

/// The hash of a snapshot's encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotId(pub Hash);

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SnapshotId {
    type Err = InvalidHash;

    fn from_str(text: &str) -> std::result::Result<Self, InvalidHash> {
        text.parse().map(Self)
    }
}

/// An immutable state: a tree, its time tree, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Tree of the files.
    pub tree: Tree,
    /// Root node of the time tree, if any times are known.
    pub times: Option<Hash>,
    /// Snapshots that this one was made from; none for a first one.
    pub parents: Vec<SnapshotId>,
    /// Author of the snapshot.
    pub author: String,
    /// Reason for the snapshot.
    pub message: String,
    /// Time of creation, as given by the author.
    pub created: Timestamp,
    /// Further keys and values to find the snapshot by.
    pub labels: BTreeMap<String, String>,
}

/// The snapshot cannot be encoded because a part of it is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot's {part} is over the limit of {limit}")]
pub struct InvalidSnapshot {
    /// Name of the part.
    pub part: &'static str,
    /// Maximum size of the part.
    pub limit: usize,
}

impl Snapshot {
    /// Maximum number of parents.
    pub const MAX_PARENTS: usize = 64;
    /// Maximum length of the author in bytes.
    pub const MAX_AUTHOR_BYTES: usize = 1024;
    /// Maximum length of the message in bytes.
    pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;
    /// Maximum number of labels.
    pub const MAX_LABELS: usize = 64;
    /// Maximum length of a label's name in bytes.
    pub const MAX_LABEL_NAME_BYTES: usize = 128;
    /// Maximum length of a label's value in bytes.
    pub const MAX_LABEL_VALUE_BYTES: usize = 4096;

    /// Returns the only encoding of this snapshot, and its id.
    pub fn encode(&self) -> std::result::Result<(SnapshotId, Bytes), InvalidSnapshot> {
        self.check()?;
        debug_assert!(self.tree.is_coherent());
        let mut out = vec![FORMAT_VERSION, TYPE_BYTE];
        put_optional_hash(&mut out, self.tree.root);
        if self.tree.root.is_some() {
            put_number(&mut out, self.tree.count);
            put_number(&mut out, self.tree.bytes);
        }
        put_optional_hash(&mut out, self.times);
        put_number(&mut out, self.parents.len() as u64);
        for parent in &self.parents {
            out.extend_from_slice(parent.0.as_bytes());
        }
        put_time(&mut out, self.created);
        put_bytes(&mut out, self.author.as_bytes());
        put_bytes(&mut out, self.message.as_bytes());
        put_number(&mut out, self.labels.len() as u64);
        for (name, value) in &self.labels {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, value.as_bytes());
        }
        let id = SnapshotId(Kind::Snapshot.hash(&out));
        Ok((id, out.into()))
    }

    fn check(&self) -> std::result::Result<(), InvalidSnapshot> {
        let longest_name = self.labels.keys().map(String::len).max().unwrap_or(0);
        let longest_value = self.labels.values().map(String::len).max().unwrap_or(0);
        for (part, size, limit) in [
            ("list of parents", self.parents.len(), Self::MAX_PARENTS),
            ("author", self.author.len(), Self::MAX_AUTHOR_BYTES),
            ("message", self.message.len(), Self::MAX_MESSAGE_BYTES),
            ("set of labels", self.labels.len(), Self::MAX_LABELS),
            ("label name", longest_name, Self::MAX_LABEL_NAME_BYTES),
            ("label value", longest_value, Self::MAX_LABEL_VALUE_BYTES),
        ] {
            if size > limit {
                return Err(InvalidSnapshot { part, limit });
            }
        }
        Ok(())
    }

    /// Decodes a snapshot; rejects bytes that are not its canonical encoding.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::open(data, TYPE_BYTE)?;
        let tree = read_tree(&mut reader)?;
        let times = read_optional_hash(&mut reader)?;
        let parents = (0..reader.number_up_to(Self::MAX_PARENTS as u64)?)
            .map(|_| reader.hash().map(SnapshotId))
            .collect::<Result<_>>()?;
        let created = reader.time()?;
        let author = reader.text(Self::MAX_AUTHOR_BYTES)?;
        let message = reader.text(Self::MAX_MESSAGE_BYTES)?;
        let labels = read_labels(&mut reader)?;
        reader.finish()?;
        Ok(Self {
            tree,
            times,
            parents,
            author,
            message,
            created,
            labels,
        })
    }
}

fn put_optional_hash(out: &mut Vec<u8>, hash: Option<Hash>) {
    match hash {
        None => out.push(0),
        Some(hash) => {
            out.push(1);
            out.extend_from_slice(hash.as_bytes());
        }
    }
}

fn read_optional_hash(reader: &mut Reader) -> Result<Option<Hash>> {
    match reader.byte()? {
        0 => Ok(None),
        1 => reader.hash().map(Some),
        _ => Err(DecodeError::Tag),
    }
}

fn read_tree(reader: &mut Reader) -> Result<Tree> {
    match read_optional_hash(reader)? {
        None => Ok(Tree::EMPTY),
        root => {
            let count = reader.number_within(1, u64::MAX)?;
            Ok(Tree {
                root,
                count,
                bytes: reader.number()?,
            })
        }
    }
}

fn read_labels(reader: &mut Reader) -> Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for _ in 0..reader.number_up_to(Snapshot::MAX_LABELS as u64)? {
        let name = reader.text(Snapshot::MAX_LABEL_NAME_BYTES)?;
        if labels
            .last_key_value()
            .is_some_and(|(last, _)| *last >= name)
        {
            return Err(DecodeError::Items);
        }
        labels.insert(name, reader.text(Snapshot::MAX_LABEL_VALUE_BYTES)?);
    }
    Ok(labels)
}
