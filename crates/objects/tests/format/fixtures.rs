//! Every encoding of every version of the format, as files that newer code must
//! still read. Another encoder, written from `docs/formats.md`, created them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use elevo_core::{Name, Timestamp};
use elevo_objects::{
    Child, ChunkItem, Content, DecodeError, DirItem, Entry, Hash, Item, Kind, Link, Mode, Node,
    Snapshot, SnapshotId, TimeEntry, TimeItem, Totals, Tree,
};

use crate::samples::name;

/// A file of hexadecimal digits, `# comments` and `#! key: value` lines.
struct Fixture {
    path: PathBuf,
    about: BTreeMap<String, String>,
    data: Bytes,
}

impl Fixture {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).expect("a fixture");
        let about = text
            .lines()
            .filter_map(|line| line.strip_prefix("#! ")?.split_once(": "))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let digits: String = text
            .lines()
            .flat_map(|line| line.split('#').take(1))
            .flat_map(str::split_whitespace)
            .collect();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
        let data = (0..digits.len()).step_by(2).map(byte).collect();
        Self { path, about, data }
    }

    fn named(stem: &str) -> Self {
        Self::read(folder("v1").join(stem).with_extension("hex"))
    }

    fn kind(&self) -> Kind {
        let text = &self.about["kind"];
        let named = |kind: &Kind| format!("{kind:?}") == *text;
        Kind::ALL.into_iter().find(named).expect("a kind")
    }

    /// Decodes the fixture as the kind it names, and encodes it again.
    fn rewrite(&self) -> Result<Bytes, DecodeError> {
        let data = &self.data;
        match self.kind() {
            Kind::Chunk => Ok(data.clone()),
            Kind::Directory => Node::<DirItem>::decode(data).map(|node| node.encode()),
            Kind::Times => Node::<TimeItem>::decode(data).map(|node| node.encode()),
            Kind::ChunkList => Node::<ChunkItem>::decode(data).map(|node| node.encode()),
            Kind::Snapshot => Snapshot::decode(data)
                .map(|snapshot| snapshot.encode().expect("within the limits").1),
        }
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

fn fixtures(name: &str) -> Vec<Fixture> {
    let files = fs::read_dir(folder(name))
        .expect("fixtures")
        .map(|file| file.expect("a fixture").path());
    let hex = files.filter(|path| path.extension().is_some_and(|extension| extension == "hex"));
    let mut fixtures: Vec<_> = hex.map(Fixture::read).collect();
    fixtures.sort_by(|a, b| a.path.cmp(&b.path));
    fixtures
}

#[test]
fn every_fixture_is_read_and_written_back_to_the_byte_under_its_hash() {
    for fixture in fixtures("v1") {
        let path = fixture.path.display();
        assert_eq!(fixture.rewrite().as_ref(), Ok(&fixture.data), "{path}");
        let hash = fixture.kind().hash(&fixture.data).to_string();
        assert_eq!(fixture.about["hash"], hash, "{path}");
    }
}

#[test]
fn every_kind_has_a_fixture() {
    let kinds: Vec<_> = fixtures("v1").iter().map(Fixture::kind).collect();
    assert!(Kind::ALL.iter().all(|kind| kinds.contains(kind)));
}

#[test]
fn every_malformed_fixture_is_refused_for_its_reason() {
    let malformed = fixtures("v1/malformed");
    for fixture in &malformed {
        let error = fixture.rewrite().map_err(|error| format!("{error:?}"));
        assert_eq!(
            error.as_ref(),
            Err(&fixture.about["error"]),
            "{}",
            fixture.path.display()
        );
    }
    for error in [
        "Truncated",
        "TrailingBytes",
        "UnknownVersion(2)",
        "WrongKind",
        "Number",
        "Text",
        "Tag",
        "Items",
        "Boundary",
    ] {
        assert!(
            malformed
                .iter()
                .any(|fixture| fixture.about["error"] == error),
            "{error}"
        );
    }
}

fn hash(byte: u8) -> Hash {
    Hash::from_bytes([byte; 32])
}

fn check<I: Item>(fixture: &str, node: Node<I>) {
    let fixture = Fixture::named(fixture);
    assert_eq!(
        Node::decode(&fixture.data).as_ref(),
        Ok(&node),
        "{}",
        fixture.path.display()
    );
    assert_eq!(node.encode(), fixture.data);
    assert_eq!(Node::<I>::key(&fixture.data).kind, fixture.kind());
}

fn child<I: Item>(last: I::Key, hash: Hash, totals: (u64, u64, u64)) -> Child<I> {
    let (items, count, bytes) = totals;
    Child {
        last,
        hash,
        totals: Totals {
            items,
            count,
            bytes,
        },
    }
}

#[test]
fn a_chunk_is_its_bytes() {
    assert_eq!(Fixture::named("chunk").data, "hello\n");
}

#[test]
fn directory_leaf_fixtures_decode_to_the_expected_values() {
    let file = |mode, content| Entry::File {
        mode: Mode::from_bits(mode),
        content,
    };
    let directory = |mode, tree| Entry::Directory {
        mode: Mode::from_bits(mode),
        tree,
    };
    let filled = Tree {
        root: Some(hash(0x33)),
        count: 3,
        bytes: 4096,
    };
    let entries: [(&[u8], Entry); 7] = [
        (b".hidden", file(0o600, Content::Empty)),
        (
            b"Makefile",
            file(
                0o644,
                Content::Chunk {
                    hash: hash(0x11),
                    size: 5,
                },
            ),
        ),
        (
            b"big.bin",
            file(
                0o640,
                Content::List {
                    hash: hash(0x22),
                    size: 70_000,
                },
            ),
        ),
        (b"bin", directory(0o755, filled)),
        (b"empty", directory(0o700, Tree::EMPTY)),
        (
            b"latest",
            Entry::Link(Link {
                hash: hash(0x44),
                size: 8,
            }),
        ),
        (
            b"\xff\xfe\n",
            file(
                0o777,
                Content::Chunk {
                    hash: hash(0x55),
                    size: 262_144,
                },
            ),
        ),
    ];
    let items = entries.map(|(text, entry)| DirItem {
        name: name(text),
        entry,
    });
    check("directory-leaf", Node::Leaf(items.into()));
}

#[test]
fn directory_index_fixtures_decode_to_the_expected_values() {
    let children = vec![
        child::<DirItem>(name("k"), hash(0x61), (3, 5, 900)),
        child(name("q"), hash(0x62), (2, 2, 0)),
        child(name("zebra"), hash(0x63), (1, 1_000_000, 1 << 40)),
    ];
    check(
        "directory-index-1",
        Node::Index {
            height: 1,
            children,
        },
    );

    let children = vec![
        child::<DirItem>(name("k"), hash(0x64), (300, 500, 90_000)),
        child(name("zebra"), hash(0x65), (4, 4, 12)),
    ];
    check(
        "directory-index-2",
        Node::Index {
            height: 2,
            children,
        },
    );
}

#[test]
fn times_fixtures_decode_to_the_expected_values() {
    let item = |text: &str, modified, children| TimeItem {
        name: name(text),
        entry: TimeEntry { modified, children },
    };
    let items = vec![
        item("Makefile", Timestamp::new(1_700_000_000, 123_456_789), None),
        item("bin", Timestamp::new(-1, 0), Some(hash(0x71))),
        item("src", None, Some(hash(0x72))),
    ];
    check("times-leaf", Node::Leaf(items));

    let times = |last: Name, hash, items| child::<TimeItem>(last, hash, (items, 0, 0));
    let children = vec![
        times(name("k"), hash(0x61), 3),
        times(name("q"), hash(0x62), 2),
        times(name("zebra"), hash(0x63), 1),
    ];
    check(
        "times-index-1",
        Node::Index {
            height: 1,
            children,
        },
    );

    let children = vec![
        times(name("k"), hash(0x64), 300),
        times(name("zebra"), hash(0x65), 4),
    ];
    check(
        "times-index-2",
        Node::Index {
            height: 2,
            children,
        },
    );
}

#[test]
fn chunk_list_fixtures_decode_to_the_expected_values() {
    let items = [(0x81, 16_384), (0x82, 262_144), (0x83, 65_536), (0x84, 1)];
    let items = items.map(|(byte, size)| ChunkItem {
        hash: hash(byte),
        size,
    });
    check("chunk-list-leaf", Node::Leaf(items.into()));

    let list = |hash, items, bytes| child::<ChunkItem>((), hash, (items, 0, bytes));
    let children = vec![
        list(hash(0x91), 3, 100_000),
        list(hash(0x92), 2, 32_768),
        list(hash(0x93), 1, 7),
    ];
    check(
        "chunk-list-index-1",
        Node::Index {
            height: 1,
            children,
        },
    );

    let children = vec![
        list(hash(0x94), 65_536, 1 << 32),
        list(hash(0x95), 5, 65_537),
    ];
    check(
        "chunk-list-index-2",
        Node::Index {
            height: 2,
            children,
        },
    );
}

#[test]
fn snapshot_fixtures_decode_to_the_expected_values() {
    let empty = Snapshot {
        tree: Tree::EMPTY,
        times: None,
        parents: vec![],
        author: String::new(),
        message: String::new(),
        created: Timestamp::new(0, 0).unwrap(),
        labels: BTreeMap::new(),
    };
    let full = Snapshot {
        tree: Tree {
            root: Some(hash(0xa1)),
            count: 1_000_000,
            bytes: 1 << 33,
        },
        times: Some(hash(0xa2)),
        parents: vec![SnapshotId(hash(0xa3)), SnapshotId(hash(0xa4))],
        author: "Ada Lovelace <ada@example.org>".to_owned(),
        message: "Two lines\nof “text”".to_owned(),
        created: Timestamp::new(1_700_000_000, 5).unwrap(),
        labels: [("branch", "main"), ("run", "")]
            .map(|(k, v)| (k.into(), v.into()))
            .into(),
    };
    for (stem, snapshot) in [("snapshot-empty", empty), ("snapshot", full)] {
        let fixture = Fixture::named(stem);
        assert_eq!(Snapshot::decode(&fixture.data).as_ref(), Ok(&snapshot));
        let (id, data) = snapshot.encode().unwrap();
        assert_eq!(
            (id.to_string(), data),
            (fixture.about["hash"].clone(), fixture.data)
        );
    }
}
