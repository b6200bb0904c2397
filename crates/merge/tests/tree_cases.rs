//! Single cases of merging trees.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_merge::{ConflictKind, Limits};
use elevo_policy::{Access, Policy, Rule, Strategy};

mod tree_support;

use tree_support::*;

fn file(text: &str) -> Node {
    Node::File(0o644, text.into())
}

fn tree(nodes: &[(&str, Node)]) -> Model {
    let nodes = nodes.iter();
    nodes
        .map(|(at, node)| (at.to_string(), node.clone()))
        .collect()
}

fn merged(how: &How, base: &Model, ours: &Model, theirs: &Model) -> elevo_merge::TreeMerge {
    let world = World::new();
    let (base, theirs) = (world.snapshot(base), world.snapshot(theirs));
    how.merge(&base, &world.unsaved(ours), &theirs)
}

fn rule(pattern: &str, access: Option<Access>, merge: Option<Strategy>) -> Policy {
    Policy {
        rules: vec![Rule {
            pattern: pattern.into(),
            access,
            merge,
            ..Rule::default()
        }],
        ..Policy::default()
    }
}

#[test]
fn a_directory_that_ours_removed_returns_with_its_mode() {
    let closed = Node::Directory(0o700);
    let base = tree(&[("d", closed.clone()), ("d/a", file("a"))]);
    let ours = tree(&[]);
    let theirs = tree(&[("d", closed), ("d/a", file("a")), ("d/b", file("b"))]);
    let merge = merged(&How::default(), &base, &ours, &theirs);
    assert_eq!(model_of(&merge.tree)["d"], Node::Directory(0o700));
}

#[test]
fn a_directory_that_both_created_merges_alike_from_both_sides() {
    let ours = tree(&[("d", Node::Directory(0o755))]);
    let theirs = tree(&[("d", Node::Directory(0o750))]);
    let merge = merged(&How::default(), &tree(&[]), &ours, &theirs);
    let swapped = merged(&How::default(), &tree(&[]), &theirs, &ours);
    assert_eq!(model_of(&merge.tree), model_of(&swapped.tree));
}

#[test]
fn a_file_in_place_of_a_directory_is_one_conflict() {
    let directory = |x: &str, y: &str| {
        tree(&[
            ("p", Node::Directory(0o755)),
            ("p/x", file(x)),
            ("p/y", file(y)),
        ])
    };
    let ours = tree(&[("p", file("ours"))]);
    let merge = merged(
        &How::default(),
        &directory("1", "1"),
        &ours,
        &directory("2", "2"),
    );
    assert_eq!(merge.conflicts.len(), 1);
    let conflict = &merge.conflicts[0];
    assert_eq!(conflict.path, path("p"));
    assert_eq!(conflict.kind, ConflictKind::FileAgainstDirectory);
    assert!(conflict.theirs.is_some());
}

#[test]
fn a_protected_file_cannot_be_made_a_directory() {
    let how = How {
        policy: rule("config", None, Some(Strategy::Review)),
        ..How::default()
    };
    let base = tree(&[("config", file("rules"))]);
    let theirs = tree(&[("config", Node::Directory(0o755)), ("config/x", file("x"))]);
    let merge = merged(&how, &base, &base, &theirs);
    assert_eq!(merge.conflicts[0].kind, ConflictKind::Protected);
    assert_eq!(model_of(&merge.tree), base);
}

#[test]
fn empty_directories_of_a_protected_place_are_decided_on() {
    let how = How {
        policy: rule("safe", None, Some(Strategy::Review)),
        ..How::default()
    };
    let directory = Node::Directory(0o755);
    let base = tree(&[("safe", directory.clone()), ("safe/old", directory.clone())]);
    let theirs = tree(&[("safe", directory.clone()), ("safe/new", directory)]);
    let merge = merged(&how, &base, &base, &theirs);
    let held: Vec<_> = held(&merge).into_iter().collect();
    assert_eq!(held, ["safe/new", "safe/old"]);
    assert_eq!(model_of(&merge.tree), base);
}

#[test]
fn a_renamed_addition_avoids_names_in_theirs() {
    let how = How {
        policy: rule("**", Some(Access::Append), None),
        ..How::default()
    };
    let ours = tree(&[("note.md", file("ours"))]);
    let theirs = tree(&[("note-2.md", file("second")), ("note.md", file("theirs"))]);
    let merge = merged(&how, &tree(&[]), &ours, &theirs);
    let expected = tree(&[
        ("note-2.md", file("second")),
        ("note-3.md", file("theirs")),
        ("note.md", file("ours")),
    ]);
    assert_eq!(model_of(&merge.tree), expected);
}

#[test]
fn hidden_files_are_not_removed_by_their_absence() {
    let how = How {
        policy: rule("secret/**", Some(Access::None), None),
        ..How::default()
    };
    let base = tree(&[
        ("open", file("open")),
        ("secret", Node::Directory(0o755)),
        ("secret/key", file("key")),
    ]);
    let merge = merged(&how, &base, &base, &tree(&[("open", file("new"))]));
    assert_eq!(landed(&merge), ["open"]);
    assert!(merge.refused.is_empty() && merge.conflicts.is_empty());
    assert!(model_of(&merge.tree).contains_key("secret/key"));
}

#[test]
fn a_directory_in_a_hidden_place_is_refused_and_not_held() {
    let mut policy = rule("vault", Some(Access::None), Some(Strategy::Review));
    policy.default = Access::None;
    let how = How {
        policy,
        ..How::default()
    };
    let theirs = tree(&[("vault", Node::Directory(0o755))]);
    let merge = merged(&how, &tree(&[]), &tree(&[]), &theirs);
    assert!(merge.conflicts.is_empty() && merge.landed.is_empty());
    assert_eq!(merge.refused.len(), 1);
}

#[test]
fn unstored_content_is_kept_when_only_its_mode_changes() {
    let base = tree(&[("a", file("text"))]);
    let ours = tree(&[("a", file("not stored"))]);
    let theirs = tree(&[("a", Node::File(0o755, "text".into()))]);
    let world = World::new();
    let start = world.snapshot(&base);
    let merge = How::default().merge(&start, &world.unsaved(&ours), &world.snapshot(&theirs));
    let saved = world.save(&merge.tree);
    let stored = elevo_engine::StateTree::at(&world.repository, &saved);
    let expected = tree(&[("a", Node::File(0o755, "not stored".into()))]);
    assert_eq!(model_of(&stored), expected);
}

fn following() -> How {
    How {
        limits: Limits {
            renames: true,
            ..Limits::default()
        },
        ..How::default()
    }
}

#[test]
fn a_file_that_theirs_moved_gets_our_change_and_their_mode() {
    let base = tree(&[("a", file("text"))]);
    let ours = tree(&[("a", file("changed"))]);
    let theirs = tree(&[("b", Node::File(0o755, "text".into()))]);
    let merge = merged(&following(), &base, &ours, &theirs);
    let expected = tree(&[("b", Node::File(0o755, "changed".into()))]);
    assert_eq!(model_of(&merge.tree), expected);
    assert!(merge.conflicts.is_empty());
}

#[test]
fn a_change_that_follows_a_move_does_not_run_into_a_new_file_there() {
    let base = tree(&[("a", file("text"))]);
    let ours = tree(&[("b", file("text"))]);
    let theirs = tree(&[("a", file("changed")), ("b", file("new"))]);
    let merge = merged(&following(), &base, &ours, &theirs);
    let held: Vec<_> = held(&merge).into_iter().collect();
    assert_eq!(held, ["a", "b"]);
    assert_eq!(model_of(&merge.tree), ours);
}

#[test]
fn a_change_that_conflicts_where_ours_moved_the_file_is_held_and_comes_again() {
    let base = tree(&[("a", file("text"))]);
    let world = World::new();
    let start = world.snapshot(&base);
    let head = world.unsaved(&tree(&[("b", file("text"))]));
    let theirs = world.snapshot(&tree(&[("a", file("theirs"))]));
    let ok = following().merge(&start, &head, &theirs);
    assert_eq!(landed(&ok), ["b"]);
    let policy = rule("b", None, Some(Strategy::Review));
    let how = How {
        policy,
        ..following()
    };
    let merge = how.merge(&start, &head, &theirs);
    assert_eq!(merge.conflicts[0].path, path("a"));
    assert_eq!(merge.conflicts[0].kind, ConflictKind::Renamed);
    let agreed = world.save(&merge.agreed.clone());
    assert_eq!(how.merge(&agreed, &merge.tree, &theirs).conflicts.len(), 1);
}
