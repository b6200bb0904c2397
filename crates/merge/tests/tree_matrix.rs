//! Trees merge as in git, except for the differences in the tables.
#![allow(clippy::disallowed_methods, reason = "a test finds git by PATH")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::{BTreeMap, BTreeSet};

use elevo_merge::Limits;

#[path = "tree_support/git.rs"]
mod git;
#[path = "tree_support/states.rs"]
mod states;
mod tree_support;

use states::{Case, Moves, STATES};
use tree_support::{How, World, held, model_of};
pub(crate) use tree_support::{Model, Node};

/// The result of a case; `None` for a conflict.
type Result = Option<Model>;

struct Difference {
    case: Case,
    git: Result,
    ours: Result,
}

/// A known group of cases that git merges differently.
struct Known {
    why: &'static str,
    /// The allowed states of base and the two sides; empty for any state.
    base: &'static [&'static str],
    one: &'static [&'static str],
    other: &'static [&'static str],
    /// Number of cases in the group.
    cases: usize,
}

impl Known {
    /// Whether the group contains a case. The sides may be swapped, because git
    /// and our merge treat them alike.
    fn covers(&self, case: &Case) -> bool {
        let is_one_of =
            |names: &[&str], state: usize| names.is_empty() || names.contains(&STATES[state]);
        let sides = |one, other| is_one_of(self.one, one) && is_one_of(self.other, other);
        is_one_of(self.base, case.base)
            && (sides(case.ours, case.theirs) || sides(case.theirs, case.ours))
    }
}

const FILES_AND_LINKS: &[&str] = &[
    "file",
    "first-line",
    "last-line",
    "first-line-too",
    "executable",
    "first-line-executable",
    "link",
    "other-link",
];

const DIRECTORIES: &[&str] = &[
    "empty-directory",
    "directory",
    "directory-changed",
    "directory-other",
    "directory-both",
];

const BOTH_MADE: &str = "both created the same file, one of them executable: so is the result";

const EMPTY: &str = "a file conflicts with an empty directory, which git does not store";

const BECAME_DIRECTORY: &str = "a file that became a directory was changed and not removed: \
     the other side can move it";

const fn known(
    why: &'static str,
    base: &'static [&'static str],
    one: &'static [&'static str],
    other: &'static [&'static str],
    cases: usize,
) -> Known {
    Known {
        why,
        base,
        one,
        other,
        cases,
    }
}

const WITHOUT_RENAMES: &[Known] = &[
    known(BOTH_MADE, &[], &["file"], &["executable"], 24),
    known(
        BOTH_MADE,
        &[],
        &["first-line"],
        &["first-line-executable"],
        24,
    ),
    known(BOTH_MADE, &[], &["moved"], &["moved-executable"], 30),
    known(EMPTY, &[], &["empty-directory"], FILES_AND_LINKS, 80),
];

const WITH_RENAMES: &[Known] = &[
    known(BOTH_MADE, &[], &["file"], &["executable"], 18),
    known(
        BOTH_MADE,
        &[],
        &["first-line"],
        &["first-line-executable"],
        22,
    ),
    known(BOTH_MADE, &[], &["moved"], &["moved-executable"], 24),
    known(EMPTY, &[], &["empty-directory"], FILES_AND_LINKS, 64),
    known(
        BECAME_DIRECTORY,
        &["file", "executable"],
        DIRECTORIES,
        &["moved", "moved-executable", "moved-into"],
        60,
    ),
    known(
        BECAME_DIRECTORY,
        &["first-line", "first-line-executable"],
        DIRECTORIES,
        &["moved-changed"],
        20,
    ),
];

#[test]
fn unmoved_files_merge_as_in_git() {
    check(&differences(Moves::Changed), WITHOUT_RENAMES);
}

#[test]
fn moved_files_merge_as_in_git() {
    check(&differences(Moves::Exact), WITH_RENAMES);
}

fn differences(moves: Moves) -> Vec<Difference> {
    let cases = states::all();
    let base = states::side(&cases, moves, |case| case.base);
    let ours = states::side(&cases, moves, |case| case.ours);
    let theirs = states::side(&cases, moves, |case| case.theirs);
    let by_git = git::Git::new(&base, &ours, &theirs).merged();
    let by_git = results(cases.len(), &by_git.conflicts, &by_git.tree);
    let world = World::new();
    let how = How {
        limits: Limits {
            renames: moves == Moves::Exact,
            ..Limits::default()
        },
        ..How::default()
    };
    let merge = how.merge(
        &world.snapshot(&base),
        &world.unsaved(&ours),
        &world.snapshot(&theirs),
    );
    let by_us = results(cases.len(), &held(&merge), &model_of(&merge.tree));
    let pairs = by_git.into_iter().zip(by_us).zip(cases);
    pairs
        .filter(|((git, ours), _)| git != ours)
        .map(|((git, ours), case)| Difference { case, git, ours })
        .collect()
}

/// The result of each case, without directories, which git does not store.
fn results(cases: usize, conflicts: &BTreeSet<String>, tree: &Model) -> Vec<Result> {
    let case_of = |at: &str| at.split('/').next().unwrap_or_default().to_owned();
    let conflicts: BTreeSet<_> = conflicts.iter().map(|at| case_of(at)).collect();
    let mut trees = BTreeMap::<String, Model>::new();
    for (at, node) in tree {
        if !matches!(node, Node::Directory(_)) {
            let tree = trees.entry(case_of(at)).or_default();
            tree.insert(at.clone(), node.clone());
        }
    }
    let directories = (0..cases).map(states::directory);
    directories
        .map(|directory| {
            let tree = trees.remove(&directory).unwrap_or_default();
            (!conflicts.contains(&directory)).then_some(tree)
        })
        .collect()
}

/// Checks that every difference is known, and that every known difference still
/// occurs.
fn check(differences: &[Difference], known: &[Known]) {
    let unknown: Vec<_> = differences
        .iter()
        .filter(|found| !known.iter().any(|known| known.covers(&found.case)))
        .map(told)
        .collect();
    assert!(
        unknown.is_empty(),
        "{} not as git:\n{}",
        unknown.len(),
        unknown.join("\n")
    );
    for entry in known {
        let count = differences.iter().filter(|found| entry.covers(&found.case));
        let (one, other) = (entry.one, entry.other);
        let told = format!("{one:?} and {other:?}: {}", entry.why);
        assert_eq!(count.count(), entry.cases, "{told}");
    }
}

fn told(found: &Difference) -> String {
    let Case { base, ours, theirs } = found.case;
    let result = |result: &Result| match result {
        None => "conflict".to_owned(),
        Some(tree) => {
            let named = tree.iter().map(|(at, node)| {
                let at = at.split_once('/').map_or(at.as_str(), |(_, at)| at);
                match node {
                    Node::File(mode, bytes) => {
                        let text = String::from_utf8_lossy(bytes);
                        let ends: Vec<_> = text.lines().collect();
                        format!("{at}={mode:o} {:?}..{:?}", ends.first(), ends.last())
                    }
                    Node::Link(to) => format!("{at}->{}", String::from_utf8_lossy(to)),
                    Node::Directory(_) => format!("{at}/"),
                }
            });
            format!("{:?}", named.collect::<Vec<_>>())
        }
    };
    let (base, ours, theirs) = (STATES[base], STATES[ours], STATES[theirs]);
    let (git, us) = (result(&found.git), result(&found.ours));
    format!("{base}: {ours} + {theirs}: git {git}, ours {us}")
}
