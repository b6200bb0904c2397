//! Directories of a tree in memory.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use elevo_core::{Name, Timestamp};
use elevo_objects::{
    ChunkItem, Content, DirItem, Entry, Hash, Kind, Mode, Node, ObjectKey, TimeItem, Tree,
};
use imbl::OrdMap;

use super::{EntryKind, Stat};
use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::store::Object;
use crate::tree::{self, Cursor};

/// A directory: its stored state, and the changes since.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub(super) tree: Tree,
    pub(super) times: Option<Hash>,
    /// Overrides the stored entries of the same names, including their times.
    /// Slots are behind a pointer because each node of the map reserves room
    /// for many slots.
    pub(super) changes: OrdMap<Name, Arc<Slot>>,
}

/// State of a name in memory.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    /// Removed.
    Absent,
    Leaf(Leaf),
    Directory {
        mode: Mode,
        modified: Option<Timestamp>,
        directory: Arc<Directory>,
    },
}

/// A file or a link.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) entry: Entry,
    pub(super) modified: Option<Timestamp>,
    /// Objects of the content that are not stored yet. May include objects that
    /// an edit has superseded.
    pub(super) pending: Option<Arc<HashMap<ObjectKey, Bytes>>>,
}

impl Default for Directory {
    fn default() -> Self {
        Self::stored(Tree::EMPTY, None)
    }
}

impl Directory {
    pub(super) fn stored(tree: Tree, times: Option<Hash>) -> Self {
        Self {
            tree,
            times,
            changes: OrdMap::new(),
        }
    }

    pub(super) fn with(&self, name: Name, slot: Slot) -> Self {
        let changes = self.changes.update(name, Arc::new(slot));
        Self { changes, ..*self }
    }

    pub(super) async fn find(&self, repository: &Repository, name: &Name) -> Result<Option<Slot>> {
        match self.changes.get(name).map(|slot| &**slot) {
            Some(Slot::Absent) => return Ok(None),
            Some(slot) => return Ok(Some(slot.clone())),
            None => {}
        }
        let root = self.tree.root;
        match tree::find::<DirItem>(repository, root, name).await? {
            Some(item) => self.stored_slot(repository, item).await.map(Some),
            None => Ok(None),
        }
    }

    async fn stored_slot(&self, repository: &Repository, item: DirItem) -> Result<Slot> {
        let times = tree::find::<TimeItem>(repository, self.times, &item.name).await?;
        let modified = times.as_ref().and_then(|times| times.entry.modified);
        Ok(match item.entry {
            Entry::Directory { mode, tree } => {
                let children = times.and_then(|times| times.entry.children);
                let directory = Arc::new(Self::stored(tree, children));
                Slot::Directory {
                    mode,
                    modified,
                    directory,
                }
            }
            entry => Slot::Leaf(Leaf {
                entry,
                modified,
                pending: None,
            }),
        })
    }

    pub(super) async fn list(
        &self,
        repository: &Repository,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Stat)>> {
        let mut listed = Vec::new();
        let mut cursor = Cursor::<DirItem>::open(repository, self.tree.root, after).await?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut changes = self
            .changes
            .range::<_, Name>((from, Bound::Unbounded))
            .peekable();
        loop {
            let leaf = cursor.next_leaf().await?;
            let bound = leaf.last().map(|item| item.name.clone());
            for item in leaf {
                while let Some((name, slot)) = changes.next_if(|(name, _)| **name < item.name) {
                    listed.extend(slot.stat().map(|stat| (name.clone(), stat)));
                }
                let (name, slot) = match changes.next_if(|(name, _)| **name == item.name) {
                    Some((name, slot)) => (name.clone(), Slot::clone(slot)),
                    None => (item.name.clone(), self.stored_slot(repository, item).await?),
                };
                listed.extend(slot.stat().map(|stat| (name, stat)));
                if listed.len() >= limit {
                    listed.truncate(limit);
                    return Ok(listed);
                }
            }
            if bound.is_none() {
                for (name, slot) in changes {
                    if listed.len() >= limit {
                        break;
                    }
                    listed.extend(slot.stat().map(|stat| (name.clone(), stat)));
                }
                listed.truncate(limit);
                return Ok(listed);
            }
        }
    }
}

impl Slot {
    pub(super) fn root(directory: Arc<Directory>) -> Self {
        Self::Directory {
            mode: Mode::EXECUTABLE,
            modified: None,
            directory,
        }
    }

    pub(super) fn stat(&self) -> Option<Stat> {
        match self {
            Self::Absent => None,
            Self::Directory { mode, modified, .. } => Some(Stat {
                kind: EntryKind::Directory,
                mode: *mode,
                size: 0,
                modified: *modified,
            }),
            Self::Leaf(leaf) => {
                let (mode, size) = match &leaf.entry {
                    Entry::File { mode, content } => (*mode, content.size()),
                    Entry::Link(link) => (Mode::from_bits(0o777), link.size),
                    Entry::Directory { .. } => return None,
                };
                let kind = EntryKind::of(&leaf.entry);
                Some(Stat {
                    kind,
                    mode,
                    size,
                    modified: leaf.modified,
                })
            }
        }
    }
}

/// Returns objects by key, as a [`Leaf`] keeps them; `None` if there are none.
pub(super) fn pending(objects: Vec<Object>) -> Option<Arc<HashMap<ObjectKey, Bytes>>> {
    if objects.is_empty() {
        return None;
    }
    let by_key = objects.into_iter().map(|object| (object.key, object.data));
    Some(Arc::new(by_key.collect()))
}

impl Leaf {
    fn content(&self) -> Option<&Content> {
        match &self.entry {
            Entry::File { content, .. } => Some(content),
            _ => None,
        }
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending
            .iter()
            .flat_map(|pending| pending.values())
            .map(Bytes::len)
            .sum()
    }

    pub(super) fn take_pending(&mut self) -> Vec<Object> {
        let pending = self.pending.take().unwrap_or_default();
        pending
            .iter()
            .map(|(key, data)| Object {
                key: *key,
                data: data.clone(),
            })
            .collect()
    }

    /// Discards pending objects that the content no longer needs.
    pub(super) fn prune(&mut self) -> Result<()> {
        let needed = self.needed()?;
        self.pending = pending(needed);
        Ok(())
    }

    /// Returns the pending objects that the content needs, each after those it
    /// lists.
    pub(super) fn needed(&self) -> Result<Vec<Object>> {
        let Some(pending) = &self.pending else {
            return Ok(Vec::new());
        };
        let (root, kind) = match (&self.entry, self.content()) {
            (_, Some(Content::Chunk { hash, .. })) => (*hash, Kind::Chunk),
            (_, Some(Content::List { hash, .. })) => (*hash, Kind::ChunkList),
            (Entry::Link(link), _) => (link.hash, Kind::Chunk),
            _ => return Ok(Vec::new()),
        };
        let mut needed = Vec::new();
        let mut open = vec![ObjectKey { kind, hash: root }];
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = open.pop() {
            let Some(data) = pending.get(&key) else {
                continue;
            };
            if !seen.insert(key) {
                continue;
            }
            if key.kind == Kind::ChunkList {
                let node = Node::<ChunkItem>::decode(data)
                    .map_err(|source| Error::Damaged { key, source })?;
                open.extend(listed_keys(&node));
            }
            needed.push(Object {
                key,
                data: data.clone(),
            });
        }
        needed.reverse();
        Ok(needed)
    }
}

fn listed_keys(node: &Node<ChunkItem>) -> Vec<ObjectKey> {
    let key = |kind, hash| ObjectKey { kind, hash };
    match node {
        Node::Leaf(items) => items
            .iter()
            .map(|item| key(Kind::Chunk, item.hash))
            .collect(),
        Node::Index { children, .. } => children
            .iter()
            .map(|child| key(Kind::ChunkList, child.hash))
            .collect(),
    }
}
