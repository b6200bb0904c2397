//! All states of a path, and all their combinations in three trees.

use crate::{Model, Node};

/// The states of the path `p`, which can also be moved to `q` and `d/p`.
pub(crate) const STATES: [&str; 18] = [
    "absent",
    "file",
    "first-line",
    "last-line",
    "first-line-too",
    "executable",
    "first-line-executable",
    "link",
    "other-link",
    "empty-directory",
    "directory",
    "directory-changed",
    "directory-other",
    "directory-both",
    "moved",
    "moved-changed",
    "moved-executable",
    "moved-into",
];

/// One combination, as indexes into [`STATES`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) base: usize,
    pub(crate) ours: usize,
    pub(crate) theirs: usize,
}

pub(crate) fn all() -> Vec<Case> {
    let count = STATES.len();
    let cases = 0..count * count * count;
    cases
        .map(|number| Case {
            base: number / count / count,
            ours: number / count % count,
            theirs: number % count,
        })
        .collect()
}

/// The directory of a case.
pub(crate) fn directory(case: usize) -> String {
    format!("c{case:05}")
}

/// Whether a moved file is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    Exact,
    /// The content of a moved file is so different that git does not detect the
    /// move.
    Changed,
}

/// One side of all cases.
pub(crate) fn side(cases: &[Case], moves: Moves, which: impl Fn(&Case) -> usize) -> Model {
    let mut model = Model::new();
    for (number, case) in cases.iter().enumerate() {
        let directory = directory(number);
        for (at, node) in state(STATES[which(case)], moves, number) {
            model.insert(format!("{directory}/{at}"), node);
        }
        model.insert(directory, Node::Directory(0o755));
    }
    model
}

/// Returns the entries of a case in a state. Contents differ between cases, so
/// that no move between cases is detected. Within a case, different contents
/// differ by more than half, so that git does not detect a rename with changes.
fn state(name: &str, moves: Moves, case: usize) -> Vec<(&'static str, Node)> {
    let text = |first: &str, last: &str| {
        let first = format!("{first} {case} ").repeat(40);
        let last = match last {
            "9" => format!("{last} {case} ").repeat(200),
            _ => last.to_owned(),
        };
        format!("{first}\nx\ny\ncase {case}\ny\nx\n{last}\n").into_bytes()
    };
    let file = Node::File(0o644, text("first", "last"));
    let moved = |mode, place: &str, first| {
        let mut text = text(first, "last");
        if moves == Moves::Changed {
            text.extend_from_slice(format!("{place} {case} ").repeat(200).as_bytes());
        }
        Node::File(mode, text)
    };
    let inner = |first| Node::File(0o644, text(first, "inner"));
    let link = |to| Node::Link(format!("{to}-{case}").into_bytes());
    let directory = Node::Directory(0o755);
    match name {
        "file" => vec![("p", file)],
        "first-line" => vec![("p", Node::File(0o644, text("1", "last")))],
        "last-line" => vec![("p", Node::File(0o644, text("first", "9")))],
        "first-line-too" => vec![("p", Node::File(0o644, text("one", "last")))],
        "executable" => vec![("p", Node::File(0o755, text("first", "last")))],
        "first-line-executable" => vec![("p", Node::File(0o755, text("1", "last")))],
        "link" => vec![("p", link("here"))],
        "other-link" => vec![("p", link("there"))],
        "empty-directory" => vec![("p", directory)],
        "directory" => vec![("p", directory), ("p/f", inner("f"))],
        "directory-changed" => vec![("p", directory), ("p/f", inner("changed"))],
        "directory-other" => vec![("p", directory), ("p/g", inner("g"))],
        "directory-both" => vec![("p", directory), ("p/f", inner("f")), ("p/g", inner("g"))],
        "moved" => vec![("q", moved(0o644, "q", "first"))],
        "moved-changed" => vec![("q", moved(0o644, "q", "1"))],
        "moved-executable" => vec![("q", moved(0o755, "q", "first"))],
        "moved-into" => vec![("d", directory), ("d/p", moved(0o644, "d", "first"))],
        _ => Vec::new(),
    }
}
