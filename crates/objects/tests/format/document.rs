//! Checks `docs/formats.md` against the code, where a test can.

use elevo_core::{MAX_NAME_BYTES, MAX_PATH_BYTES};
use elevo_objects::{
    AVERAGE_CHUNK, Child, DirItem, Hash, Kind, LOOK_AHEAD, MAX_CHUNK, MAX_FILE_BYTES, MAX_HEIGHT,
    MAX_ITEMS, MAX_LINK_BYTES, MIN_CHUNK, MIN_ITEMS, Node, Snapshot, SnapshotId, Totals, Tree,
};

use crate::samples::name;

const FORMATS: &str = include_str!("../../../../docs/formats.md");

/// Returns the cells of the table row that begins with `name` in backticks.
fn row(name: &str) -> Vec<&'static str> {
    let start = format!("| `{name}` |");
    let line = FORMATS.lines().find(|line| line.starts_with(&start));
    line.expect("a row in docs/formats.md")
        .split('|')
        .map(str::trim)
        .collect()
}

#[test]
fn the_limits_are_those_of_the_code() {
    for (name, limit) in [
        ("MAX_NAME_BYTES", MAX_NAME_BYTES as u64),
        ("MAX_PATH_BYTES", MAX_PATH_BYTES as u64),
        ("MAX_LINK_BYTES", MAX_LINK_BYTES as u64),
        ("MAX_FILE_BYTES", MAX_FILE_BYTES),
        ("MIN_CHUNK", MIN_CHUNK as u64),
        ("AVERAGE_CHUNK", AVERAGE_CHUNK as u64),
        ("MAX_CHUNK", MAX_CHUNK as u64),
        ("LOOK_AHEAD", LOOK_AHEAD as u64),
        ("MIN_ITEMS", MIN_ITEMS as u64),
        ("MAX_ITEMS", MAX_ITEMS as u64),
        ("MAX_HEIGHT", MAX_HEIGHT.into()),
        ("MAX_PARENTS", Snapshot::MAX_PARENTS as u64),
        ("MAX_AUTHOR_BYTES", Snapshot::MAX_AUTHOR_BYTES as u64),
        ("MAX_MESSAGE_BYTES", Snapshot::MAX_MESSAGE_BYTES as u64),
        ("MAX_LABELS", Snapshot::MAX_LABELS as u64),
        (
            "MAX_LABEL_NAME_BYTES",
            Snapshot::MAX_LABEL_NAME_BYTES as u64,
        ),
        (
            "MAX_LABEL_VALUE_BYTES",
            Snapshot::MAX_LABEL_VALUE_BYTES as u64,
        ),
    ] {
        assert_eq!(row(name)[2].replace(',', ""), limit.to_string(), "{name}");
    }
}

#[test]
fn the_keys_are_those_of_the_code() {
    for kind in Kind::ALL {
        let text = row(&format!("{kind:?}"))[2].trim_matches('`');
        let key: [u8; 32] = format!("{text:<32}").into_bytes().try_into().unwrap();
        let expected = blake3::keyed_hash(&key, b"any bytes");
        assert_eq!(kind.hash(b"any bytes").as_bytes(), expected.as_bytes());
    }
}

#[test]
fn the_largest_objects_are_as_large_as_it_says() {
    let hash = Hash::from_bytes([0xff; 32]);
    let totals = Totals {
        items: u64::MAX,
        count: u64::MAX,
        bytes: u64::MAX,
    };
    let child = Child::<DirItem> {
        last: name([b'x'; MAX_NAME_BYTES]),
        hash,
        totals,
    };
    let node = Node::Index {
        height: MAX_HEIGHT,
        children: vec![child; MAX_ITEMS],
    };
    assert_eq!(node.encode().len(), 81_669);

    let text = |length: usize| "x".repeat(length);
    let label = |number| {
        let name = format!("{number:0>width$}", width = Snapshot::MAX_LABEL_NAME_BYTES);
        (name, text(Snapshot::MAX_LABEL_VALUE_BYTES))
    };
    let snapshot = Snapshot {
        tree: Tree {
            root: Some(hash),
            count: u64::MAX,
            bytes: u64::MAX,
        },
        times: Some(hash),
        parents: vec![SnapshotId(hash); Snapshot::MAX_PARENTS],
        author: text(Snapshot::MAX_AUTHOR_BYTES),
        message: text(Snapshot::MAX_MESSAGE_BYTES),
        created: elevo_core::Timestamp::new(i64::MIN, 999_999_999).unwrap(),
        labels: (0..Snapshot::MAX_LABELS).map(label).collect(),
    };
    assert_eq!(snapshot.encode().unwrap().1.len(), 339_310);
    for size in ["81,669", "339,310"] {
        assert!(FORMATS.contains(size));
    }
}
