//! Laws of every merge of trees, checked with random trees.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_merge::Limits;
use elevo_policy::{Access, Policy, Rule, Strategy as Settle};
use proptest::prelude::*;

#[path = "tree_support/edits.rs"]
mod edits;
#[path = "tree_support/laws.rs"]
mod laws;
mod tree_support;

use edits::{Trees, edited, edits, trees};
use tree_support::*;

/// Random policies that allow, hide, protect and keep paths local.
fn policy() -> impl Strategy<Value = Policy> {
    let patterns = prop::sample::select(vec![
        "a",
        "a/**",
        "*.txt",
        "**/*.json",
        "d",
        "d/e",
        "d/e/**",
        "d/*",
        "**/a*",
        "src/**",
        "b.txt",
    ]);
    let access = prop::sample::select(vec![
        Access::None,
        Access::Read,
        Access::Append,
        Access::Write,
        Access::Full,
    ]);
    let settle = prop::option::weighted(0.15, Just(Settle::Review));
    let rule = (
        patterns,
        prop::option::weighted(0.9, access.clone()),
        settle,
    );
    let rules = prop::collection::vec(rule, 0..6);
    (rules, access, any::<bool>()).prop_map(|(rules, default, local)| Policy {
        rules: rules
            .into_iter()
            .map(|(pattern, access, merge)| Rule {
                pattern: pattern.to_owned(),
                access: access.or(Some(Access::Full)),
                merge,
                ..Rule::default()
            })
            .collect(),
        default,
        local: local.then(|| "*.bin".to_owned()).into_iter().collect(),
        ..Policy::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_merge_keeps_the_laws(trees in trees()) {
        laws::all(&trees);
    }

    #[test]
    fn sides_can_be_swapped(trees in trees()) {
        laws::symmetric(&trees);
    }

    #[test]
    fn nothing_happens_without_permission(
        trees in trees(),
        policy in policy(),
        renames in any::<bool>(),
        whole in prop::sample::select(vec![0, 2, 1000]),
    ) {
        let limits = Limits { renames, whole, ..Limits::default() };
        let agent = Some("bounded");
        laws::permitted(&trees, &How { policy, agent, limits, ..How::default() });
    }

}

proptest! {
    // Each case runs eighteen merges.
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn changes_of_different_places_land_in_any_order(
        base in edits(0..30),
        scripts in prop::array::uniform3(edits(1..8)),
    ) {
        let base = edited(&Model::new(), &base);
        // Each script edits a separate directory.
        let below = |model: &Model, name: &str| -> Model {
            let top = (name.to_owned(), Node::Directory(0o755));
            let inside = model.iter();
            let inside = inside.map(|(at, node)| (format!("{name}/{at}"), node.clone()));
            inside.chain([top]).collect()
        };
        let names = ["one", "two", "three"];
        let all = |changed: &dyn Fn(usize) -> bool| -> Model {
            let parts = names.iter().enumerate().map(|(i, name)| {
                if changed(i) {
                    below(&edited(&base, &scripts[i]), name)
                } else {
                    below(&base, name)
                }
            });
            parts.flatten().collect()
        };
        let expected = all(&|_| true);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let world = World::new();
            let start = world.snapshot(&all(&|_| false));
            let mut head = world.unsaved(&all(&|_| false));
            for one in order {
                let theirs = world.snapshot(&all(&|i| i == one));
                let merge = How::default().merge(&start, &head, &theirs);
                prop_assert!(merge.conflicts.is_empty());
                head = merge.tree;
            }
            prop_assert_eq!(model_of(&head), expected.clone());
        }
    }
}

fn one_file(at: &str, content: &str) -> Model {
    let mut model = Model::new();
    edits::put(&mut model, at, Node::File(0o644, content.into()));
    model
}

#[test]
fn two_equal_increments_of_a_counter_count_twice() {
    let counted = |count: u32| {
        let types = r#""$crdt": {"types": {"/visits": "counter"}}"#;
        one_file("n.crdt.json", &format!("{{{types}, \"visits\": {count}}}"))
    };
    let trees = Trees {
        base: counted(5),
        ours: counted(6),
        theirs: counted(6),
    };
    let done = laws::merge(&trees, &How::default());
    assert!(done.held.is_empty());
    let Some(Node::File(_, bytes)) = done.tree.get("n.crdt.json") else {
        panic!("{:?}", done.tree);
    };
    let merged: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(merged["visits"], 7);
    laws::all(&trees);
}

/// Theirs removed a link that ours moved, and created an equal link where ours
/// has a file. The next merge sees a move that it cannot follow.
#[test]
fn a_removal_that_looks_like_a_move_later_is_held_again() {
    let link = || Node::Link(b"to-0".to_vec());
    let file = || Node::File(0o644, b"{}\n".to_vec());
    let model = |nodes: Vec<(&str, Node)>| {
        let mut model = Model::new();
        for (at, node) in nodes {
            edits::put(&mut model, at, node);
        }
        model
    };
    laws::all(&Trees {
        base: model(vec![("d/c.json", link()), ("n", link()), ("z", file())]),
        ours: model(vec![
            ("a", link()),
            ("c.json", file()),
            ("d/c.json", link()),
            ("z", file()),
        ]),
        theirs: model(vec![("c.json/c.json", link()), ("z", link())]),
    });
}
