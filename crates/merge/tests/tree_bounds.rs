//! Merges of large, deep or hostile trees.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_engine::{Attributes, StateTree};
use elevo_merge::{Error, Limits};
use elevo_objects::{Entry, Snapshot};

#[path = "tree_support/counting.rs"]
mod counting;
mod tree_support;

use counting::EMPTY_FILE;
use tree_support::*;

fn limited(whole: u64, changes: u64) -> How {
    How {
        limits: Limits {
            whole,
            changes,
            ..Limits::default()
        },
        ..How::default()
    }
}

#[test]
fn a_large_directory_is_one_outcome() {
    let world = World::new();
    let empty = world.snapshot(&Model::new());
    let big = counting::flat(&world, 20_000);
    let at = |snapshot: &Snapshot| StateTree::at(&world.repository, snapshot);
    let made = How::default().merge(&empty, &at(&empty), &big);
    assert_eq!((made.landed.len(), made.landed[0].entries), (1, 20_000));
    assert_eq!(now(made.tree.tree()).unwrap(), big.tree);
    let removed = How::default().merge(&big, &at(&big), &empty);
    assert_eq!(
        (removed.landed.len(), removed.landed[0].entries),
        (1, 20_000)
    );
    assert_eq!(now(removed.tree.tree()).unwrap(), empty.tree);
}

#[test]
fn too_many_changes_are_rejected() {
    let world = World::new();
    let empty = world.snapshot(&Model::new());
    let big = counting::flat(&world, 100);
    let ours = StateTree::at(&world.repository, &empty);
    for renames in [false, true] {
        let mut how = limited(u64::MAX, 100);
        how.limits.renames = renames;
        let refused = how.try_merge(&empty, &ours, &big);
        assert!(matches!(refused, Err(Error::TooManyChanges { limit: 100 })));
        how.limits.changes = 101;
        assert_eq!(how.merge(&empty, &ours, &big).landed.len(), 101);
    }
}

#[test]
fn many_new_files_of_one_directory_land() {
    let world = World::new();
    let start = world.snapshot(&Model::from([("big".into(), Node::Directory(0o755))]));
    let big = counting::flat(&world, 5000);
    let ours = StateTree::at(&world.repository, &start);
    let merge = How::default().merge(&start, &ours, &big);
    assert_eq!(merge.landed.len(), 5000);
    assert_eq!(now(merge.tree.tree()).unwrap(), big.tree);
}

/// A file below a thousand directories.
fn deep(world: &World, text: &str) -> Snapshot {
    let tree = StateTree::empty(&world.repository);
    let at = path(&format!("{}file", "d/".repeat(1000)));
    let data = text.to_owned().into();
    now(tree.write(&at, data, Attributes::default())).unwrap();
    world.save(&tree)
}

#[test]
fn a_thousand_levels_are_merged_as_few_are() {
    let world = World::new();
    let empty = world.snapshot(&Model::new());
    let base = deep(&world, "1\n2\n3\n4\n");
    let (one, other) = (
        deep(&world, "one\n2\n3\n4\n"),
        deep(&world, "1\n2\n3\nfour\n"),
    );
    let both = deep(&world, "one\n2\n3\nfour\n");
    let at = |snapshot: &Snapshot| StateTree::at(&world.repository, snapshot);
    for (whole, base, ours, theirs, expected) in [
        (u64::MAX, &empty, &empty, &base, &base),
        (0, &base, &base, &empty, &empty),
        (0, &base, &one, &other, &both),
    ] {
        let merge = limited(whole, 500_000).merge(base, &at(ours), theirs);
        assert_eq!(now(merge.tree.tree()).unwrap(), expected.tree);
        assert!(merge.conflicts.is_empty());
    }
}

#[test]
fn names_of_any_bytes_are_merged() {
    let world = World::new();
    let long = [b'n'; 255];
    let names: &[&[u8]] = &[
        b"-rf",
        b" ",
        b"*",
        b"[",
        b"\\",
        b"~",
        b"\n",
        b"\xff\xfe",
        b"...",
        b"a.",
        b"#",
        b"!x",
        b"\x01",
        &long,
    ];
    let tree = StateTree::empty(&world.repository);
    for name in names {
        let inside = [*name, b"/", *name].concat();
        let at = elevo_core::TreePath::new(inside).unwrap();
        now(tree.put(&at, EMPTY_FILE)).unwrap();
    }
    let all = world.save(&tree);
    let empty = world.snapshot(&Model::new());
    let at = |snapshot: &Snapshot| StateTree::at(&world.repository, snapshot);
    for whole in [0, u64::MAX] {
        let how = limited(whole, 1000);
        let made = how.merge(&empty, &at(&empty), &all);
        assert_eq!(now(made.tree.tree()).unwrap(), all.tree);
        let removed = how.merge(&all, &at(&all), &empty);
        assert_eq!(now(removed.tree.tree()).unwrap(), empty.tree);
    }
}

#[test]
fn a_gitignore_of_a_mebibyte_is_followed_and_a_larger_one_is_not() {
    let line = "ignored-*.log\n";
    for (size, local) in [(1 << 20, 1), ((1 << 20) + 1, 0)] {
        let mut ignore = line.to_owned();
        while ignore.len() + 16 <= size {
            ignore += &format!("name-{:010}\n", ignore.len());
        }
        ignore += &"#".repeat(size - ignore.len());
        let world = World::new();
        let mut theirs = Model::from([
            (".gitignore".into(), Node::File(0o644, ignore.into_bytes())),
            ("ignored-1.log".into(), Node::File(0o644, b"log".to_vec())),
        ]);
        for file in 0..500 {
            theirs.insert(format!("kept-{file}"), Node::File(0o644, b"kept".to_vec()));
        }
        let empty = world.snapshot(&Model::new());
        let ours = StateTree::at(&world.repository, &empty);
        let merge = How::default().merge(&empty, &ours, &world.snapshot(&theirs));
        assert_eq!(merge.local, local);
        assert_eq!(merge.landed.len() as u64, 502 - local);
    }
}

#[test]
fn an_ignored_file_keeps_a_directory_from_being_taken_whole() {
    let world = World::new();
    let text = |text: &str| Node::File(0o644, text.into());
    let theirs = world.snapshot(&Model::from([
        ("d".into(), Node::Directory(0o755)),
        ("d/.gitignore".into(), text("*.log\n")),
        ("d/a.log".into(), text("a")),
        ("d/b.txt".into(), text("b")),
        ("d/e".into(), Node::Directory(0o755)),
        ("d/e/c.log".into(), text("c")),
        ("d/e/d.txt".into(), text("d")),
    ]));
    let empty = world.snapshot(&Model::new());
    let ours = StateTree::at(&world.repository, &empty);
    let merge = limited(0, 1000).merge(&empty, &ours, &theirs);
    assert_eq!(merge.local, 2);
    let expected = ["d", "d/.gitignore", "d/b.txt", "d/e", "d/e/d.txt"];
    assert_eq!(landed(&merge), expected);
    let directories = merge.landed.iter();
    assert!(
        directories
            .filter(|landed| matches!(landed.after, Some(Entry::Directory { .. })))
            .all(|landed| landed.entries == 1)
    );
}

#[test]
fn a_merge_reads_only_the_changes_of_a_tree() {
    let (small, large) = (counting::objects_read(10), counting::objects_read(32));
    assert!(large <= 2 * small, "{small} objects, then {large}");
}
