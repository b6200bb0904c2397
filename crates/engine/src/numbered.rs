//! Entries of a snapshot by number, for callers that need inode numbers: the
//! root is 1, and the entries of a directory follow it, depth first.
//!
//! An entry is found by its number from the counts that trees store: this costs
//! one descent, and needs no table of earlier lookups.

use std::sync::Arc;

use elevo_core::{Name, Timestamp};
use elevo_objects::{DecodeError, DirItem, Entry, Hash, Kind, Mode, Node, ObjectKey, Snapshot};
use elevo_objects::{TimeItem, Tree};

use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::tree::{AscendingLookup, find};

/// The entries of one snapshot.
#[derive(Debug)]
pub struct NumberedTree {
    repository: Repository,
    root: NumberedEntry,
}

/// An entry with its number.
#[derive(Clone, Debug)]
pub struct NumberedEntry {
    /// Number of the entry.
    pub number: u64,
    /// The entry.
    pub entry: Entry,
    /// Time of the last modification, if known.
    pub modified: Option<Timestamp>,
    /// Root of the time tree of the directory's entries.
    times: Option<Hash>,
}

impl NumberedEntry {
    /// The number after those of the entry and everything in it: the number of
    /// its next sibling, if there is one.
    pub fn next(&self) -> u64 {
        self.number.saturating_add(size_of(&self.entry))
    }

    fn tree(&self) -> Option<Tree> {
        match self.entry {
            Entry::Directory { tree, .. } => Some(tree),
            _ => None,
        }
    }
}

/// Number of entries in an entry, including itself.
fn size_of(entry: &Entry) -> u64 {
    match entry {
        Entry::Directory { tree, .. } => tree.count.saturating_add(1),
        _ => 1,
    }
}

impl NumberedTree {
    /// Numbers the entries of `snapshot`, whose root has the permission bits
    /// `mode`.
    pub fn new(repository: &Repository, snapshot: &Snapshot, mode: Mode) -> Self {
        let root = NumberedEntry {
            number: 1,
            entry: Entry::Directory {
                mode,
                tree: snapshot.tree,
            },
            modified: None,
            times: snapshot.times,
        };
        Self {
            repository: repository.clone(),
            root,
        }
    }

    /// The repository with the objects of the entries.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The entry of the root directory.
    pub fn root(&self) -> &NumberedEntry {
        &self.root
    }

    /// Returns the entry with the number `number`.
    pub async fn get(&self, number: u64) -> Result<Option<NumberedEntry>> {
        let mut at = self.root.clone();
        while at.number != number {
            match self.holder(&at, number).await? {
                Some(below) => at = below,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Returns the number of the directory that contains the entry with the
    /// number `number`. The root counts as its own parent.
    pub async fn parent(&self, number: u64) -> Result<u64> {
        let (mut above, mut at) = (1, self.root.clone());
        while at.number != number {
            above = at.number;
            match self.holder(&at, number).await? {
                Some(below) => at = below,
                None => break,
            }
        }
        Ok(above)
    }

    /// Returns the entry `name` of a directory.
    pub async fn lookup(
        &self,
        directory: &NumberedEntry,
        name: &[u8],
    ) -> Result<Option<NumberedEntry>> {
        let Some(mut node) = self.node_of(directory).await? else {
            return Ok(None);
        };
        let mut number = directory.number.saturating_add(1);
        loop {
            node = match &*node {
                Node::Leaf(items) => {
                    let found = items.binary_search_by(|item| item.name.as_bytes().cmp(name));
                    let Ok(at) = found else { return Ok(None) };
                    let before = items[..at].iter().map(|item| size_of(&item.entry));
                    let number = before.fold(number, u64::saturating_add);
                    return self.entry(directory, &items[at], number).await.map(Some);
                }
                Node::Index { children, height } => {
                    let at = children.partition_point(|child| child.last.as_bytes() < name);
                    let Some(child) = children.get(at) else {
                        return Ok(None);
                    };
                    let before = children[..at].iter().map(|child| child.totals.count);
                    number = before.fold(number, u64::saturating_add);
                    self.repository.child(child, *height).await?
                }
            };
        }
    }

    /// Returns entries of a directory, in order, beginning with the entry whose
    /// number is `from`: the rest of one leaf, or nothing at the end. The first
    /// entry has the number after the directory's.
    pub async fn list(
        &self,
        directory: &NumberedEntry,
        from: u64,
    ) -> Result<Vec<(Name, NumberedEntry)>> {
        let Some((mut number, items)) = self.leaf_of(directory, from).await? else {
            return Ok(Vec::new());
        };
        let mut listed: Vec<(Name, NumberedEntry)> = Vec::with_capacity(items.len());
        let mut times: Option<AscendingLookup<TimeItem>> = None;
        for item in items {
            let next = number.saturating_add(size_of(&item.entry));
            if number >= from {
                let entry = match &mut times {
                    None => {
                        let entry = self.entry(directory, &item, number).await?;
                        let after = Some(&item.name);
                        let run =
                            AscendingLookup::open(&self.repository, directory.times, after).await?;
                        times = Some(run);
                        entry
                    }
                    Some(times) => numbered(&item, number, times.find(&item.name).await?),
                };
                listed.push((item.name, entry));
            }
            number = next;
        }
        Ok(listed)
    }

    /// Returns the entry of a directory that has the number `number`, or that
    /// contains the entry with this number.
    async fn holder(
        &self,
        directory: &NumberedEntry,
        number: u64,
    ) -> Result<Option<NumberedEntry>> {
        let Some((mut at, items)) = self.leaf_of(directory, number).await? else {
            return Ok(None);
        };
        for item in items {
            let next = at.saturating_add(size_of(&item.entry));
            if number < next {
                return self.entry(directory, &item, at).await.map(Some);
            }
            at = next;
        }
        Ok(None)
    }

    /// Returns the items of the leaf of a directory in which the entry `number`
    /// is, at any depth, and the number of the first item.
    async fn leaf_of(
        &self,
        directory: &NumberedEntry,
        number: u64,
    ) -> Result<Option<(u64, Vec<DirItem>)>> {
        if number <= directory.number || number >= directory.next() {
            return Ok(None);
        }
        let Some(mut node) = self.node_of(directory).await? else {
            return Ok(None);
        };
        let mut at = directory.number.saturating_add(1);
        loop {
            node = match &*node {
                Node::Leaf(items) => return Ok(Some((at, items.clone()))),
                Node::Index { children, height } => {
                    let mut found = None;
                    for child in children {
                        let next = at.saturating_add(child.totals.count);
                        if number < next {
                            found = Some(child);
                            break;
                        }
                        at = next;
                    }
                    let Some(child) = found else { return Ok(None) };
                    self.repository.child(child, *height).await?
                }
            };
        }
    }

    /// Returns the top node of a directory, if it has one. Rejects a node whose
    /// count is not the directory's, which would make numbers ambiguous.
    async fn node_of(&self, directory: &NumberedEntry) -> Result<Option<Arc<Node<DirItem>>>> {
        let Some(Tree {
            root: Some(hash),
            count,
            ..
        }) = directory.tree()
        else {
            return Ok(None);
        };
        let node = self.repository.node::<DirItem>(hash).await?;
        if node.totals().count == count {
            return Ok(Some(node));
        }
        let key = ObjectKey {
            kind: Kind::Directory,
            hash,
        };
        let source = DecodeError::Items;
        Err(Error::Damaged { key, source })
    }

    async fn entry(
        &self,
        directory: &NumberedEntry,
        item: &DirItem,
        number: u64,
    ) -> Result<NumberedEntry> {
        let name = item.name.as_bytes();
        let time = find::<TimeItem>(&self.repository, directory.times, name).await?;
        Ok(numbered(item, number, time))
    }
}

fn numbered(item: &DirItem, number: u64, time: Option<TimeItem>) -> NumberedEntry {
    let time = time.map(|time| time.entry);
    NumberedEntry {
        number,
        entry: item.entry.clone(),
        modified: time.and_then(|time| time.modified),
        times: time.and_then(|time| time.children),
    }
}
