//! Encodings: each value has one, and no other bytes decode to it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use elevo_core::Timestamp;
use elevo_objects::{
    Child, ChunkItem, DecodeError, DirItem, Item, Kind, Node, Snapshot, SnapshotId, TimeEntry,
    TimeItem, Totals, Tree, TreeBuilder,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::samples::{
    DENSE_NAMES, any_chunk_item, any_dir_item, any_hash, any_name, any_time, any_time_item, file,
    hash_of, in_order, name,
};

/// A value with an encoding.
trait Object: Sized + PartialEq + Debug {
    fn to_bytes(&self) -> Bytes;
    fn from_bytes(data: &Bytes) -> Result<Self, DecodeError>;
}

impl<I: Item> Object for Node<I> {
    fn to_bytes(&self) -> Bytes {
        self.encode()
    }

    fn from_bytes(data: &Bytes) -> Result<Self, DecodeError> {
        Self::decode(data)
    }
}

impl Object for Snapshot {
    fn to_bytes(&self) -> Bytes {
        self.encode().expect("within the limits").1
    }

    fn from_bytes(data: &Bytes) -> Result<Self, DecodeError> {
        Self::decode(data)
    }
}

/// Checks that bytes are rejected, or equal the encoding of the decoded value.
fn refused_or_canonical<O: Object>(data: &Bytes) -> Result<(), TestCaseError> {
    if let Ok(object) = O::from_bytes(data) {
        prop_assert_eq!(&object.to_bytes(), data, "{:?}", object);
    }
    Ok(())
}

/// Checks the properties of any object that a tree or a history can contain.
fn check_valid<O: Object>(object: &O, damage: &Damage) -> Result<(), TestCaseError> {
    let data = object.to_bytes();
    let read = O::from_bytes(&data);
    prop_assert_eq!(read.as_ref(), Ok(object));
    let short = data.slice(..damage.place.index(data.len()));
    prop_assert!(O::from_bytes(&short).is_err());
    let long: Bytes = [&data[..], &[damage.flip]].concat().into();
    prop_assert_eq!(O::from_bytes(&long), Err(DecodeError::TrailingBytes));
    refused_or_canonical::<O>(&damage.done_to(&data))
}

/// One changed byte.
#[derive(Clone, Debug)]
struct Damage {
    place: Index,
    flip: u8,
}

impl Damage {
    fn done_to(&self, data: &Bytes) -> Bytes {
        let mut bytes = data.to_vec();
        bytes[self.place.index(data.len())] ^= self.flip;
        bytes.into()
    }
}

fn any_damage() -> impl Strategy<Value = Damage> {
    (any::<Index>(), 1..=u8::MAX).prop_map(|(place, flip)| Damage { place, flip })
}

/// Returns all nodes of the tree of `items`.
fn nodes_of<I: Item>(items: Vec<I>) -> Vec<Node<I>> {
    let mut builder = TreeBuilder::new();
    items.into_iter().for_each(|item| builder.push(item));
    builder.finish();
    builder
        .take_finished()
        .into_iter()
        .map(|new| (*new.node).clone())
        .collect()
}

fn check_tree<I: Item>(items: Vec<I>, damage: &Damage) -> Result<(), TestCaseError> {
    nodes_of(items)
        .iter()
        .try_for_each(|node| check_valid(node, damage))
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let tree = (any_hash(), 1..=u64::MAX, any::<u64>()).prop_map(|(root, count, bytes)| Tree {
        root: Some(root),
        count,
        bytes,
    });
    let parent = any_hash().prop_map(SnapshotId);
    (
        prop_oneof![Just(Tree::EMPTY), tree],
        prop::option::of(any_hash()),
        prop::collection::vec(parent, 0..4),
        ".{0,20}",
        ".{0,80}",
        any_time(),
        prop::collection::btree_map(".{0,10}", ".{0,20}", 0..5),
    )
        .prop_map(
            |(tree, times, parents, author, message, created, labels)| Snapshot {
                tree,
                times,
                parents,
                author,
                message,
                created,
                labels,
            },
        )
}

/// Bytes that are not an encoding but begin like one.
fn any_bytes() -> impl Strategy<Value = Bytes> {
    let header = prop_oneof![
        Just(vec![]),
        (prop::sample::select(&b"dtfs"[..]), 0..4_u8)
            .prop_map(|(kind, height)| vec![1, kind, height]),
    ];
    // Counts, sizes and tags are small numbers.
    let byte = prop_oneof![2 => 0..8_u8, 1 => any::<u8>()];
    (header, prop::collection::vec(byte, 0..200))
        .prop_map(|(header, rest)| Bytes::from([header, rest].concat()))
}

fn any_child<I: Item>(key: impl Strategy<Value = I::Key>) -> impl Strategy<Value = Child<I>> {
    let totals = prop_oneof![
        (0..9_u64, 0..9_u64, 0..1_u64 << 20),
        any::<(u64, u64, u64)>(),
    ];
    (key, any_hash(), totals).prop_map(|(last, hash, (items, count, bytes))| Child {
        last,
        hash,
        totals: Totals {
            items,
            count,
            bytes,
        },
    })
}

proptest! {
    #[test]
    fn directory_nodes_read_back_and_damage_never_passes_for_another_value(
        items in prop::collection::vec(any_dir_item(), 1..40),
        damage in any_damage(),
    ) {
        check_tree(in_order(items), &damage)?;
    }

    #[test]
    fn time_nodes_read_back_and_damage_never_passes_for_another_value(
        items in prop::collection::vec(any_time_item(), 1..40),
        damage in any_damage(),
    ) {
        check_tree(in_order(items), &damage)?;
    }

    #[test]
    fn chunk_lists_read_back_and_damage_never_passes_for_another_value(
        items in prop::collection::vec(any_chunk_item(), 1..40),
        damage in any_damage(),
    ) {
        check_tree(items, &damage)?;
    }

    #[test]
    fn index_nodes_read_back_and_damage_never_passes_for_another_value(
        names in prop::sample::subsequence(DENSE_NAMES.clone(), 1..200),
        damage in any_damage(),
    ) {
        let times = names.iter().map(|name| TimeItem {
            name: name.clone(),
            entry: TimeEntry { modified: None, children: Some(hash_of(1)) },
        });
        check_tree(times.collect(), &damage)?;
        check_tree(names.into_iter().map(|name| file(name, 0)).collect(), &damage)?;
    }

    #[test]
    fn snapshots_read_back_and_damage_never_passes_for_another_value(
        snapshot in any_snapshot(),
        damage in any_damage(),
    ) {
        check_valid(&snapshot, &damage)?;
        let (id, data) = snapshot.encode().unwrap();
        prop_assert_eq!(id.0, Kind::Snapshot.hash(&data));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_canonical(data in any_bytes()) {
        refused_or_canonical::<Node<DirItem>>(&data)?;
        refused_or_canonical::<Node<TimeItem>>(&data)?;
        refused_or_canonical::<Node<ChunkItem>>(&data)?;
        refused_or_canonical::<Snapshot>(&data)?;
    }

    #[test]
    fn nodes_that_no_tree_has_are_refused_or_canonical(
        items in prop::collection::vec(any_dir_item(), 0..5),
        names in prop::collection::vec(any_child::<DirItem>(any_name()), 0..4),
        chunks in prop::collection::vec(any_child::<ChunkItem>(Just(())), 0..4),
        height in 1..80_u8,
    ) {
        refused_or_canonical::<Node<DirItem>>(&Node::Leaf(items).encode())?;
        refused_or_canonical::<Node<DirItem>>(&Node::Index { height, children: names }.encode())?;
        let list = Node::<ChunkItem>::Index { height, children: chunks };
        refused_or_canonical::<Node<ChunkItem>>(&list.encode())?;
    }
}

#[test]
fn a_reference_describes_its_node_only() {
    let items: Vec<_> = ["a", "b", "c"].map(|text| file(name(text), 0)).into();
    let child = Child {
        last: name("c"),
        hash: hash_of(0),
        totals: Totals {
            items: 3,
            count: 3,
            bytes: 30,
        },
    };
    let leaf = Node::Leaf(items.clone());
    assert!(child.describes(&leaf, 1));
    assert!(!child.describes(&leaf, 2));
    assert!(!child.describes(&leaf, 0));
    assert!(!child.describes(&Node::Leaf(items[1..].to_vec()), 1));
    assert!(!child.describes(&Node::Leaf(items[..2].to_vec()), 1));
    let index = Node::Index {
        height: 1,
        children: vec![child.clone()],
    };
    assert!(child.describes(&index, 2));
    assert!(!child.describes(&index, 1));
    assert!(leaf.is_root() && !index.is_root());
}

#[test]
fn a_snapshot_over_a_limit_is_not_encoded() {
    let ok = Snapshot {
        tree: Tree::EMPTY,
        times: None,
        parents: vec![SnapshotId(hash_of(0)); 64],
        author: "a".repeat(1024),
        message: "m".repeat(64 * 1024),
        created: Timestamp::new(0, 0).unwrap(),
        labels: (0..64)
            .map(|n| (format!("{n:0128}"), "v".repeat(4096)))
            .collect(),
    };
    let (_, data) = ok.encode().unwrap();
    assert_eq!(Snapshot::decode(&data).as_ref(), Ok(&ok));
    let with_label = |name: String, value: String| Snapshot {
        labels: BTreeMap::from([(name, value)]),
        ..ok.clone()
    };
    for (part, over) in [
        (
            "list of parents",
            Snapshot {
                parents: vec![SnapshotId(hash_of(0)); 65],
                ..ok.clone()
            },
        ),
        (
            "author",
            Snapshot {
                author: "a".repeat(1025),
                ..ok.clone()
            },
        ),
        (
            "message",
            Snapshot {
                message: "m".repeat(64 * 1024 + 1),
                ..ok.clone()
            },
        ),
        ("label name", with_label("n".repeat(129), String::new())),
        ("label value", with_label(String::new(), "v".repeat(4097))),
        (
            "set of labels",
            Snapshot {
                labels: (0..65).map(|n| (n.to_string(), String::new())).collect(),
                ..ok.clone()
            },
        ),
    ] {
        assert_eq!(over.encode().unwrap_err().part, part);
    }
}
