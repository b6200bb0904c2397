//! The objects that a node refers to.

use bytes::Bytes;
use elevo_core::Name;
use elevo_objects::{
    ChunkItem, Content, DecodeError, DirItem, Entry, Item, Kind, Node, ObjectKey, Snapshot,
    TimeItem,
};

/// A reference from a node to an object.
pub(super) struct Edge {
    pub(super) key: ObjectKey,
    /// Name of the entry that the object belongs to; `None` if the object
    /// belongs to the path of the node itself.
    pub(super) name: Option<Name>,
}

impl Edge {
    const fn new(kind: Kind, hash: elevo_objects::Hash, name: Option<Name>) -> Self {
        let key = ObjectKey { kind, hash };
        Self { key, name }
    }
}

/// The roots of a snapshot's trees.
pub(super) fn of_snapshot(snapshot: &Snapshot) -> Vec<Edge> {
    let tree = snapshot.tree.root;
    let tree = tree.map(|hash| Edge::new(Kind::Directory, hash, None));
    let times = snapshot.times;
    let times = times.map(|hash| Edge::new(Kind::Times, hash, None));
    tree.into_iter().chain(times).collect()
}

/// Returns the objects that the node encoded as `data` refers to; none for a
/// chunk.
pub(super) fn of_object(kind: Kind, data: &Bytes) -> Result<Vec<Edge>, DecodeError> {
    match kind {
        Kind::Directory => of_node(data, |DirItem { name, entry }| {
            let (kind, hash) = match entry {
                Entry::File { content, .. } => match content {
                    Content::Empty => return None,
                    Content::Chunk { hash, .. } => (Kind::Chunk, hash),
                    Content::List { hash, .. } => (Kind::ChunkList, hash),
                },
                Entry::Directory { tree, .. } => (Kind::Directory, tree.root?),
                Entry::Link(link) => (Kind::Chunk, link.hash),
            };
            Some(Edge::new(kind, hash, Some(name)))
        }),
        Kind::Times => of_node(data, |TimeItem { name, entry }| {
            Some(Edge::new(Kind::Times, entry.children?, Some(name)))
        }),
        Kind::ChunkList => of_node(data, |item: ChunkItem| {
            Some(Edge::new(Kind::Chunk, item.hash, None))
        }),
        Kind::Chunk | Kind::Snapshot => Ok(Vec::new()),
    }
}

fn of_node<I: Item>(
    data: &Bytes,
    edge: impl FnMut(I) -> Option<Edge>,
) -> Result<Vec<Edge>, DecodeError> {
    Ok(match Node::<I>::decode(data)? {
        Node::Leaf(items) => items.into_iter().filter_map(edge).collect(),
        Node::Index { children, .. } => {
            let below = children.into_iter();
            let below = below.map(|child| Edge::new(I::KIND, child.hash, None));
            below.collect()
        }
    })
}
