//! Random edits of trees.

use proptest::prelude::*;

use super::{Model, Node, is_at_or_below};

/// The paths of the edits. Some are below others that can be files.
pub(crate) const PLACES: [&str; 22] = [
    "a",
    "a/x",
    "a/x/deep.txt",
    "b.txt",
    "b.txt/below",
    "c.json",
    "data.bin",
    "d",
    "d/a",
    "d/b.txt",
    "d/c.json",
    "d/data.bin",
    "d/e",
    "d/e/a.txt",
    "d/e/f.toml",
    "d/e/g.yaml",
    "d/e/h",
    "n.crdt.json",
    "src/lib.rs",
    "src/main.rs",
    "src",
    "z",
];

/// One step of an edit script; numbers are indexes of paths and contents.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Write(usize, usize),
    Link(usize, usize),
    Make(usize, bool),
    Mode(usize, usize),
    Remove(usize),
    Move(usize, usize),
}

pub(crate) fn edit() -> impl Strategy<Value = Edit> {
    let place = || 0..PLACES.len();
    prop_oneof![
        6 => (place(), 0..8usize).prop_map(|(at, what)| Edit::Write(at, what)),
        1 => (place(), 0..3usize).prop_map(|(at, to)| Edit::Link(at, to)),
        1 => (place(), any::<bool>()).prop_map(|(at, closed)| Edit::Make(at, closed)),
        2 => (place(), 0..4usize).prop_map(|(at, mode)| Edit::Mode(at, mode)),
        3 => place().prop_map(Edit::Remove),
        2 => (place(), place()).prop_map(|(from, to)| Edit::Move(from, to)),
    ]
}

pub(crate) fn edits(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec(edit(), count)
}

/// A base tree and two edited versions of it.
#[derive(Clone, Debug)]
pub(crate) struct Trees {
    pub(crate) base: Model,
    pub(crate) ours: Model,
    pub(crate) theirs: Model,
}

pub(crate) fn trees() -> impl Strategy<Value = Trees> {
    (edits(0..30), edits(0..10), edits(0..10)).prop_map(|(base, ours, theirs)| {
        let base = edited(&Model::new(), &base);
        Trees {
            ours: edited(&base, &ours),
            theirs: edited(&base, &theirs),
            base,
        }
    })
}

/// The tree after the edits.
pub(crate) fn edited(model: &Model, edits: &[Edit]) -> Model {
    let mut model = model.clone();
    for edit in edits {
        apply(&mut model, edit);
    }
    model
}

fn apply(model: &mut Model, edit: &Edit) {
    match *edit {
        Edit::Write(at, what) => put(
            model,
            PLACES[at],
            Node::File(0o644, content(PLACES[at], what)),
        ),
        Edit::Link(at, to) => put(model, PLACES[at], Node::Link(format!("to-{to}").into())),
        Edit::Make(at, closed) if !model.contains_key(PLACES[at]) => {
            let mode = if closed { 0o700 } else { 0o755 };
            put(model, PLACES[at], Node::Directory(mode));
        }
        Edit::Make(..) => {}
        Edit::Mode(at, mode) => match model.get_mut(PLACES[at]) {
            Some(Node::Directory(old)) => *old = [0o755, 0o700, 0o750, 0o775][mode],
            Some(Node::File(old, _)) => *old = [0o644, 0o755, 0o600, 0o700][mode],
            _ => {}
        },
        Edit::Remove(at) => model.retain(|place, _| !is_at_or_below(place, PLACES[at])),
        Edit::Move(from, to) => relocate(model, PLACES[from], PLACES[to]),
    }
}

/// Replaces the entry at a path, and creates the directories above it.
pub(crate) fn put(model: &mut Model, at: &str, node: Node) {
    model.retain(|place, _| !is_at_or_below(place, at));
    for (end, _) in at.match_indices('/') {
        let above = model.entry(at[..end].to_owned());
        let above = above.or_insert(Node::Directory(0o755));
        if !matches!(above, Node::Directory(_)) {
            *above = Node::Directory(0o755);
        }
    }
    model.insert(at.to_owned(), node);
}

fn relocate(model: &mut Model, from: &str, to: &str) {
    if is_at_or_below(from, to) || is_at_or_below(to, from) {
        return;
    }
    let moved: Vec<_> = model
        .iter()
        .filter(|(place, _)| is_at_or_below(place, from))
        .map(|(place, node)| (format!("{to}{}", &place[from.len()..]), node.clone()))
        .collect();
    model.retain(|place, _| !is_at_or_below(place, from));
    for (place, node) in moved {
        put(model, &place, node);
    }
}

/// Content that can be merged in parts.
fn content(place: &str, what: usize) -> Vec<u8> {
    let (first, last) = (what % 3, what / 3);
    if what == 7 && !place.ends_with("crdt.json") {
        return Vec::new();
    }
    match place.rsplit('.').next() {
        Some("json") if place.ends_with("crdt.json") => {
            let types = r#""$crdt": {"types": {"/n": "counter", "/s": "set"}}"#;
            format!("{{{types}, \"n\": {first}, \"s\": [{last}]}}\n")
        }
        Some("json") => format!("{{\n  \"one\": {first},\n  \"two\": {last}\n}}\n"),
        Some("toml") => format!("one = {first}\n\n[two]\nthree = {last}\n"),
        Some("yaml") => format!("one: {first}\ntwo:\n  three: {last}\n"),
        Some("bin") => format!("\0{first}\0{last}"),
        _ => format!("{first}\nk\nk\nsame\nl\nl\n{last}\n"),
    }
    .into_bytes()
}
