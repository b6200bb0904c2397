//! Nodes and snapshots from disks and other stores.

use bytes::Bytes;
use elevo_objects::{
    Child, ChunkItem, DirItem, Item, Kind, MAX_HEIGHT, MAX_ITEMS, Node, Snapshot, TimeItem,
    TreeBuilder,
};

/// Decodes a node of each of the three trees, and checks that an accepted node has only this
/// encoding.
pub fn node(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    node_of::<DirItem>(&data);
    node_of::<TimeItem>(&data);
    node_of::<ChunkItem>(&data);
}

fn node_of<I: Item>(data: &Bytes) {
    let Ok(node) = Node::<I>::decode(data) else {
        return;
    };
    assert_eq!(node.encode(), data, "one encoding");
    assert!((1..=MAX_ITEMS).contains(&node.len()) && node.height() <= MAX_HEIGHT);
    assert!(node.totals().items >= node.len() as u64);
    let child = Child {
        last: node.last_key().expect("no node is empty").clone(),
        hash: Node::<I>::key(data).hash,
        totals: node.totals(),
    };
    assert!(child.describes(&node, node.height() + 1));
    assert!(!child.describes(&node, node.height()));
    if let Node::Leaf(items) = node {
        rebuilt(&items, data);
    }
}

/// Rebuilds the tree of a leaf's items; the builder must not split it.
fn rebuilt<I: Item>(items: &[I], data: &Bytes) {
    let mut builder = TreeBuilder::new();
    items.iter().cloned().for_each(|item| builder.push(item));
    let root = builder.finish();
    assert_eq!(root.map(|root| root.hash), Some(I::KIND.hash(data)));
    assert_eq!(builder.take_finished().len(), 1);
}

/// Decodes a snapshot, and checks that an accepted snapshot has only this encoding.
pub fn snapshot(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    let Ok(snapshot) = Snapshot::decode(&data) else {
        return;
    };
    let (id, encoded) = snapshot.encode().expect("within its limits");
    assert_eq!(encoded, data, "one encoding");
    assert_eq!(id.0, Kind::Snapshot.hash(&data));
    assert_eq!(id.to_string().parse(), Ok(id), "its text reads back");
}
