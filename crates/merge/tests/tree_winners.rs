//! `last-writer` and `priority` resolve conflicts, and change nothing else.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use elevo_core::TreePath;
use elevo_merge::{Drivers, Limits, Precedence, Rules, Sides, TreeMerge, merge_trees};
use elevo_policy::{Policy, Rule, Strategy as Settle};
use proptest::prelude::*;

mod tree_support;

use tree_support::*;

/// The same precedence for every path.
#[derive(Debug)]
struct Always(Option<bool>);

#[async_trait]
impl Precedence for Always {
    async fn theirs_first(&self, _: &TreePath) -> elevo_merge::Result<Option<bool>> {
        Ok(self.0)
    }
}

/// The way in which a conflict is resolved, which determines the winning side.
#[derive(Clone, Copy, Debug)]
enum Won {
    LastWriter,
    TheirsFirst,
    OursFirst,
}

impl Won {
    const ALL: [Self; 3] = [Self::LastWriter, Self::TheirsFirst, Self::OursFirst];

    fn theirs_win(self) -> bool {
        !matches!(self, Self::OursFirst)
    }

    fn strategy(self) -> Settle {
        match self {
            Self::LastWriter => Settle::LastWriter,
            _ => Settle::Priority,
        }
    }
}

fn merged(strategy: Settle, precedence: Always, at: &str, sides: [Node; 3]) -> TreeMerge {
    let world = World::new();
    let tree = |node: &Node| Model::from([(at.to_owned(), node.clone())]);
    let [base, ours, theirs] = sides.each_ref().map(tree);
    let policy = Policy {
        rules: vec![Rule {
            pattern: "**".into(),
            merge: Some(strategy),
            ..Rule::default()
        }],
        ..Policy::default()
    };
    let policy = policy.compile().unwrap();
    let rules = Rules {
        view: &policy.for_agent(Some("agent")),
        policy: &policy,
        decided: false,
        careful: false,
        instead: None,
        precedence: &precedence,
        unsettled: &BTreeSet::new(),
    };
    let sides = Sides {
        base: &world.snapshot(&base),
        ours: &world.unsaved(&ours),
        theirs: &world.snapshot(&theirs),
    };
    let limits = Limits::default();
    now(merge_trees(&sides, &rules, &Drivers::standard(), &limits)).unwrap()
}

fn settled(how: Won, at: &str, sides: [String; 3]) -> (String, TreeMerge) {
    let precedence = Always(Some(how.theirs_win()));
    let sides = sides.map(|text| Node::File(0o644, text.into_bytes()));
    let merge = merged(how.strategy(), precedence, at, sides);
    let Some(Node::File(_, content)) = model_of(&merge.tree).remove(at) else {
        panic!("the file is gone");
    };
    (String::from_utf8(content).unwrap(), merge)
}

/// The expected value of one place: the change of one side, or the winner's if
/// both changed it.
fn expected<T: Clone + PartialEq>(how: Won, base: &T, ours: &T, theirs: &T) -> T {
    if ours == base || (theirs != base && how.theirs_win()) {
        theirs.clone()
    } else {
        ours.clone()
    }
}

/// Values by key; a missing key is removed.
type Values = BTreeMap<&'static str, u8>;

fn values() -> impl Strategy<Value = Values> {
    let keys = prop::sample::subsequence(vec!["a", "b", "c", "d", "e"], 0..=5);
    keys.prop_flat_map(|keys| {
        let values = prop::collection::vec(0..3u8, keys.len());
        values.prop_map(move |values| keys.iter().copied().zip(values).collect())
    })
}

fn json(values: &Values) -> String {
    serde_json::to_string_pretty(values).unwrap() + "\n"
}

/// Lines that are far enough apart to be changed separately.
fn text(lines: &[u8]) -> String {
    let lines = lines.iter().enumerate();
    lines
        .map(|(n, line)| format!("value {line}\nend of {n}\n\nstart of {}\n", n + 1))
        .collect()
}

fn lines() -> impl Strategy<Value = [Vec<u8>; 3]> {
    (1..8usize).prop_flat_map(|count| [(); 3].map(|()| prop::collection::vec(0..3u8, count)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn only_the_keys_that_conflict_are_settled(
        base in values(), ours in values(), theirs in values()
    ) {
        for how in Won::ALL {
            let sides = [json(&base), json(&ours), json(&theirs)];
            let (found, merge) = settled(how, "a.json", sides);
            let mut model = Values::new();
            for key in ["a", "b", "c", "d", "e"] {
                let [base, ours, theirs] = [&base, &ours, &theirs].map(|side| side.get(key));
                if let Some(value) = expected(how, &base, &ours, &theirs) {
                    model.insert(key, *value);
                }
            }
            let found: BTreeMap<String, u8> = serde_json::from_str(&found).unwrap();
            let found: Values = found.iter().map(|(key, value)| {
                (["a", "b", "c", "d", "e"].into_iter().find(|known| known == key).unwrap(), *value)
            }).collect();
            prop_assert_eq!(found, model, "{:?}", how);
            prop_assert!(merge.conflicts.is_empty());
        }
    }

    #[test]
    fn only_the_lines_that_conflict_are_settled([base, ours, theirs] in lines()) {
        for how in Won::ALL {
            let sides = [text(&base), text(&ours), text(&theirs)];
            let (found, merge) = settled(how, "a.txt", sides);
            let places = base.iter().zip(&ours).zip(&theirs);
            let model: Vec<_> = places
                .map(|((base, ours), theirs)| expected(how, base, ours, theirs))
                .collect();
            prop_assert_eq!(found, text(&model), "{:?}", how);
            prop_assert!(merge.conflicts.is_empty());
            let lost = base.iter().zip(&ours).zip(&theirs).any(|((base, ours), theirs)| {
                ours != base && theirs != base && ours != theirs
            });
            let is_overruled = matches!(how, Won::OursFirst) && lost;
            prop_assert_eq!(merge.overruled.len(), usize::from(is_overruled));
        }
    }
}

#[test]
fn agents_of_equal_priority_hold_only_conflicts() {
    let file = |text: &str| Node::File(0o644, text.into());
    let (base, ours) = (file("{\"a\": 1, \"b\": 1}"), file("{\"a\": 2, \"b\": 1}"));
    let apart = [base.clone(), ours.clone(), file("{\"a\": 1, \"b\": 2}")];
    let merge = merged(Settle::Priority, Always(None), "a.json", apart);
    assert_eq!(merge.conflicts, []);
    let found = model_of(&merge.tree)["a.json"].clone();
    assert_eq!(found, file("{\"a\": 2, \"b\": 2}"));

    let same = [base, ours, file("{\"a\": 3, \"b\": 1}")];
    let merge = merged(Settle::Priority, Always(None), "a.json", same);
    assert_eq!(merge.conflicts.len(), 1);
    assert_eq!(merge.conflicts[0].hunks.len(), 1, "{:?}", merge.conflicts);
}

#[test]
fn a_file_that_no_driver_can_merge_is_settled_whole() {
    let file = |text: &str| Node::File(0o644, text.into());
    let sides = [file("\0base"), file("\0ours"), file("\0theirs")];
    for (strategy, theirs_first, expected) in [
        (Settle::LastWriter, None, "\0theirs"),
        (Settle::Priority, Some(true), "\0theirs"),
        (Settle::Priority, Some(false), "\0ours"),
        (Settle::Priority, None, "\0ours"),
    ] {
        let merge = merged(strategy, Always(theirs_first), "a.bin", sides.clone());
        assert_eq!(model_of(&merge.tree)["a.bin"], file(expected));
        let is_held = strategy == Settle::Priority && theirs_first.is_none();
        assert_eq!(merge.conflicts.len(), usize::from(is_held));
    }
}
