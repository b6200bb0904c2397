//! Conflicts that are left to the side that is merged into: a workspace takes
//! the project's changes, edits the conflicting files, and merges.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::BTreeSet;

use elevo_core::TreePath;
use elevo_merge::{LeftConflict, RefusalReason, TreeMerge, has_workspace_markers};
use proptest::prelude::*;

#[path = "tree_support/edits.rs"]
mod edits;
mod tree_support;

use edits::{Trees, trees};
use tree_support::*;

const LIMIT: u64 = 1 << 20;

/// A workspace after it took the project's changes, and the project.
struct Refreshed {
    world: World,
    left: Vec<LeftConflict>,
    merge: TreeMerge,
    project: Model,
}

impl Refreshed {
    /// `ours` is the workspace, `theirs` the project.
    fn new(trees: &Trees) -> Self {
        let world = World::new();
        let base = world.snapshot(&trees.base);
        let theirs = world.snapshot(&trees.theirs);
        let workspace = world.save(&world.unsaved(&trees.ours));
        let workspace = elevo_engine::StateTree::at(&world.repository, &workspace);
        let mut merge = How::default().merge(&base, &workspace, &theirs);
        let theirs = elevo_engine::StateTree::at(&world.repository, &theirs);
        let mut left = Vec::new();
        for conflict in merge.conflicts.clone() {
            if conflict.can_be_left() {
                left.push(now(merge.leave(&conflict, &theirs, LIMIT)).unwrap());
            }
        }
        Self {
            world,
            left,
            merge,
            project: trees.theirs.clone(),
        }
    }

    fn paths(&self) -> BTreeSet<TreePath> {
        self.left.iter().map(|left| left.path.clone()).collect()
    }

    fn workspace(&self) -> Model {
        model_of(&self.merge.tree)
    }

    /// Merges the current workspace into the project.
    fn merged(&self, workspace: &Model, unsettled: BTreeSet<TreePath>) -> TreeMerge {
        let how = How {
            unsettled,
            ..How::default()
        };
        let base = self.world.save(&self.merge.agreed);
        let workspace = self.world.snapshot(workspace);
        let project = self.world.unsaved(&self.project);
        how.merge(&base, &project, &workspace)
    }
}

fn file(text: &str) -> Node {
    Node::File(0o644, text.into())
}

fn one(base: Node, ours: Node, theirs: Node) -> Trees {
    let tree = |node| Model::from([("a.txt".to_owned(), node)]);
    Trees {
        base: tree(base),
        ours: tree(ours),
        theirs: tree(theirs),
    }
}

#[test]
fn a_text_gets_markers_and_lands_once_they_are_settled() {
    let trees = one(
        file("head\nbase\ntail\n"),
        file("head\nworkspace\ntail\nmine\n"),
        file("HEAD\nproject\ntail\n"),
    );
    let refreshed = Refreshed::new(&trees);
    let [left] = &refreshed.left[..] else {
        panic!("one conflict: {:?}", refreshed.left);
    };
    assert!(left.marked);
    let mut workspace = refreshed.workspace();
    let expected = "<<<<<<< this workspace\nhead\nworkspace\n||||||| base\nhead\nbase\n\
                    =======\nHEAD\nproject\n>>>>>>> the project\ntail\nmine\n";
    assert_eq!(workspace["a.txt"], file(expected));

    let settled = "HEAD\nboth\ntail\nmine\n";
    workspace.insert("a.txt".into(), file(settled));
    let merge = refreshed.merged(&workspace, BTreeSet::new());
    assert_eq!(merge.conflicts, []);
    assert_eq!(model_of(&merge.tree)["a.txt"], file(settled));
}

#[test]
fn a_binary_file_stays_and_is_held_until_it_is_another() {
    let trees = one(file("\0base"), file("\0workspace"), file("\0project"));
    let refreshed = Refreshed::new(&trees);
    assert!(!refreshed.left[0].marked);
    let mut workspace = refreshed.workspace();
    assert_eq!(workspace["a.txt"], file("\0workspace"));
    let held = refreshed.merged(&workspace, refreshed.paths());
    assert_eq!(held.conflicts.len(), 1, "{held:?}");
    assert_eq!(model_of(&held.tree)["a.txt"], file("\0project"));

    workspace.insert("a.txt".into(), file("\0both"));
    let merge = refreshed.merged(&workspace, BTreeSet::new());
    assert_eq!(model_of(&merge.tree)["a.txt"], file("\0both"));
}

#[test]
fn lines_like_markers_that_were_there_before_are_not_taken_for_markers() {
    let quoted = "<<<<<<< this workspace\n";
    let trees = one(
        file("base\n"),
        file(&format!("{quoted}mine\n")),
        file("project\n"),
    );
    let refreshed = Refreshed::new(&trees);
    assert!(!refreshed.left[0].marked);
    assert_eq!(refreshed.workspace(), trees.ours);
}

#[test]
fn markers_are_found_with_any_ending() {
    for text in [
        "<<<<<<< this workspace",
        "a\r\n||||||| base\r\nb",
        ">>>>>>> the project\n",
    ] {
        assert!(has_workspace_markers(text.as_bytes()), "{text:?}");
    }
    for text in ["=======\n", "<<<<<<< ours\n", " >>>>>>> the project\n", ""] {
        assert!(!has_workspace_markers(text.as_bytes()), "{text:?}");
    }
}

#[test]
fn a_file_with_markers_is_refused_with_advice() {
    let why = RefusalReason::Markers(path("a.txt"));
    assert!(
        why.to_string()
            .contains("`a.txt` still has conflict markers")
    );
    assert!(why.remedy().contains("merge again"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_of_the_project_is_lost_before_a_conflict_is_settled(trees in trees()) {
        let refreshed = Refreshed::new(&trees);
        let workspace = refreshed.workspace();
        let merge = refreshed.merged(&workspace, refreshed.paths());
        let merged = model_of(&merge.tree);
        for left in &refreshed.left {
            let at = left.path.to_string();
            prop_assert_eq!(merged.get(&at), trees.theirs.get(&at), "{}", at);
        }
        // The workspace's content is not lost either.
        for left in refreshed.left.iter().filter(|left| !left.marked) {
            let at = left.path.to_string();
            let (is, was) = (workspace.get(&at), trees.ours.get(&at));
            prop_assert_eq!(is.map(content), was.map(content), "{}", at);
        }
    }

    #[test]
    fn a_resolved_file_lands_unchanged(trees in trees()) {
        let refreshed = Refreshed::new(&trees);
        let mut workspace = refreshed.workspace();
        for left in &refreshed.left {
            // Only existing files are replaced, because the directory of a new
            // file might be missing.
            if left.left.is_some() {
                workspace.insert(left.path.to_string(), file("settled\n"));
            }
        }
        let merge = refreshed.merged(&workspace, BTreeSet::new());
        let merged = model_of(&merge.tree);
        for left in refreshed.left.iter().filter(|left| left.left.is_some()) {
            let at = left.path.to_string();
            prop_assert_eq!(merged.get(&at).map(content), Some(&b"settled\n"[..]), "{}", at);
        }
    }
}

/// The content of a node, without its permissions.
fn content(node: &Node) -> &[u8] {
    match node {
        Node::Directory(_) => b"",
        Node::File(_, content) | Node::Link(content) => content,
    }
}
