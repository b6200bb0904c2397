//! Entries of a snapshot by number, for whoever needs inode numbers: the root's
//! is 1, and those of what is in a directory follow its own, depth first.
//!
//! A number is found, and its entry named, by the counts that trees keep: at the
//! cost of a descent, without a table of what was met before.

use std::sync::Arc;

use elevo_core::{Name, Timestamp};
use elevo_objects::{DecodeError, DirItem, Entry, Hash, Kind, Mode, Node, ObjectKey, Snapshot};
use elevo_objects::{TimeItem, Tree};

use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::tree::{Run, find};

/// The entries of one snapshot.
#[derive(Debug)]
pub struct Numbered {
    repository: Repository,
    root: NumberedEntry,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct NumberedEntry {
    /// Its number.
    pub number: u64,
    /// What it is.
    pub entry: Entry,
    /// When it was last modified, if that is known.
    pub modified: Option<Timestamp>,
    /// The times of what is in it.
    times: Option<Hash>,
}

impl NumberedEntry {
    /// The number after its own and those of all that is in it: that of what
    /// comes next in its directory, if anything does.
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

/// How many numbers an entry takes.
fn size_of(entry: &Entry) -> u64 {
    match entry {
        Entry::Directory { tree, .. } => tree.count.saturating_add(1),
        _ => 1,
    }
}

impl Numbered {
    /// Of `snapshot`, whose root has these permission bits.
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

    /// Where their objects are.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The root.
    pub fn root(&self) -> &NumberedEntry {
        &self.root
    }

    /// The entry of a number.
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

    /// The number of the directory that the entry of a number is in; the root is
    /// in itself.
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

    /// The entry of a directory that is called so.
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

    /// Some entries of a directory, in order, from the one with this number on:
    /// as many as come in one piece, none at the end. The first has the number
    /// after the directory's own.
    pub async fn list(
        &self,
        directory: &NumberedEntry,
        from: u64,
    ) -> Result<Vec<(Name, NumberedEntry)>> {
        let Some((mut number, items)) = self.leaf_of(directory, from).await? else {
            return Ok(Vec::new());
        };
        let mut listed: Vec<(Name, NumberedEntry)> = Vec::with_capacity(items.len());
        let mut times: Option<Run<TimeItem>> = None;
        for item in items {
            let next = number.saturating_add(size_of(&item.entry));
            if number >= from {
                let entry = match &mut times {
                    None => {
                        let entry = self.entry(directory, &item, number).await?;
                        let after = Some(&item.name);
                        let run = Run::open(&self.repository, directory.times, after).await?;
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

    /// The entry in a directory that has a number, or has what has it in it.
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

    /// The items of a directory among which a number is, and that of the first.
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

    /// The highest node of a directory, if it is one and has any. Its counts are
    /// those that the directory was said to have, or numbers would mean two things.
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
