//! The objects that snapshots and nodes refer to.

use bytes::Bytes;
use elevo_objects::{
    ChunkItem, Content, DirItem, Entry, Hash, Item, Kind, Node, ObjectKey, Snapshot, SnapshotId,
    TimeItem,
};

use crate::error::{Error, Result};

pub(crate) fn key(kind: Kind, hash: Hash) -> ObjectKey {
    ObjectKey { kind, hash }
}

pub(crate) fn snapshot_key(id: SnapshotId) -> ObjectKey {
    key(Kind::Snapshot, id.0)
}

/// A key that stands for a snapshot with its whole history. No object has this
/// hash.
pub(super) fn history_key(id: SnapshotId) -> ObjectKey {
    Kind::Snapshot.key(id.0.as_bytes())
}

/// Returns the roots of a snapshot's trees.
pub(crate) fn roots_of(snapshot: &Snapshot) -> Vec<ObjectKey> {
    let tree = snapshot.tree.root.map(|hash| key(Kind::Directory, hash));
    let times = snapshot.times.map(|hash| key(Kind::Times, hash));
    tree.into_iter().chain(times).collect()
}

/// Collects the keys of the objects that a node refers to.
pub(crate) fn needed_by(node: ObjectKey, data: &Bytes, needed: &mut Vec<ObjectKey>) -> Result<()> {
    match node.kind {
        Kind::Directory => items::<DirItem>(node, data, needed, |item| match item.entry {
            Entry::Directory { tree, .. } => tree.root.map(|hash| key(Kind::Directory, hash)),
            Entry::Link(link) => Some(key(Kind::Chunk, link.hash)),
            Entry::File { content, .. } => match content {
                Content::Empty => None,
                Content::Chunk { hash, .. } => Some(key(Kind::Chunk, hash)),
                Content::List { hash, .. } => Some(key(Kind::ChunkList, hash)),
            },
        }),
        Kind::Times => items::<TimeItem>(node, data, needed, |item| {
            item.entry.children.map(|hash| key(Kind::Times, hash))
        }),
        Kind::ChunkList => {
            items::<ChunkItem>(node, data, needed, |item| Some(key(Kind::Chunk, item.hash)))
        }
        Kind::Chunk | Kind::Snapshot => Ok(()),
    }
}

/// Collects the keys that the items of a leaf, or the children of an index
/// node, refer to.
fn items<I: Item>(
    node: ObjectKey,
    data: &Bytes,
    needed: &mut Vec<ObjectKey>,
    of: impl Fn(I) -> Option<ObjectKey>,
) -> Result<()> {
    let decoded = Node::<I>::decode(data);
    match decoded.map_err(|source| Error::Damaged { key: node, source })? {
        Node::Leaf(items) => needed.extend(items.into_iter().filter_map(of)),
        Node::Index { children, .. } => {
            needed.extend(children.into_iter().map(|child| key(I::KIND, child.hash)));
        }
    }
    Ok(())
}
