//! Random operations, on a tree and on the model.

use std::collections::BTreeMap;

use elevo_core::TreePath;
use elevo_engine::{Attributes, Change, ChangeKind, Error, StateTree};
use elevo_objects::Mode;
use proptest::prelude::*;

use crate::support::{Model, Thing, info, noise, path};

/// An operation on a tree.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Write(TreePath, Vec<u8>, Option<Mode>),
    Splice(TreePath, u64, u64, Vec<u8>),
    Truncate(TreePath, u64),
    Symlink(TreePath, Vec<u8>),
    MakeDirectory(TreePath, Mode),
    SetMode(TreePath, Mode),
    Remove(TreePath),
    Rename(TreePath, TreePath),
    Commit,
}

fn any_path() -> impl Strategy<Value = TreePath> {
    let name = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "dir", "e.txt"]).prop_map(String::from),
        2 => (0..400_u32).prop_map(|n| format!("f{n}")),
    ];
    prop::collection::vec(name, 1..4).prop_map(|names| path(&names.join("/")))
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(vec![0o644, 0o755, 0o600, 0o444]).prop_map(Mode::from_bits)
}

pub(crate) fn any_data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u64>(), 0..400_000_usize).prop_map(|(seed, length)| noise(seed, length)),
        1 => (0..700_000_usize).prop_map(|length| vec![0; length]),
    ]
}

pub(crate) fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any_path(), any_data(), prop::option::of(any_mode()))
            .prop_map(|(path, data, mode)| Op::Write(path, data, mode)),
        3 => (any_path(), 0..500_000_u64, 0..300_000_u64, any_data())
            .prop_map(|(path, at, remove, data)| Op::Splice(path, at, remove, data)),
        1 => (any_path(), 0..600_000_u64).prop_map(|(path, size)| Op::Truncate(path, size)),
        1 => (any_path(), prop::collection::vec(1..255_u8, 1..20))
            .prop_map(|(path, target)| Op::Symlink(path, target)),
        1 => (any_path(), any_mode()).prop_map(|(path, mode)| Op::MakeDirectory(path, mode)),
        1 => (any_path(), any_mode()).prop_map(|(path, mode)| Op::SetMode(path, mode)),
        2 => any_path().prop_map(Op::Remove),
        2 => (any_path(), any_path()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => Just(Op::Commit),
    ]
}

/// Applies an operation to the model; `false` if it is not possible.
pub(crate) fn apply_to_model(model: &mut Model, op: &Op) -> bool {
    match op {
        Op::Write(at, data, mode) => {
            let kept = match model.get(at) {
                Some(Thing::Directory(_)) => return false,
                Some(Thing::File(mode, _)) => *mode,
                _ => Mode::FILE,
            };
            make_parents(model, at)
                && insert(model, at, Thing::File(mode.unwrap_or(kept), data.clone()))
        }
        Op::Splice(at, offset, remove, data) => {
            let Some(Thing::File(_, old)) = model.get_mut(at) else {
                return false;
            };
            let offset = *offset as usize;
            if old.len() < offset {
                old.resize(offset, 0);
            }
            let end = offset.saturating_add(*remove as usize).min(old.len());
            old.splice(offset..end, data.iter().copied());
            true
        }
        Op::Truncate(at, size) => {
            let Some(Thing::File(_, old)) = model.get_mut(at) else {
                return false;
            };
            old.resize(*size as usize, 0);
            true
        }
        Op::Symlink(at, target) => {
            !matches!(model.get(at), Some(Thing::Directory(_)))
                && make_parents(model, at)
                && insert(model, at, Thing::Link(target.clone()))
        }
        Op::MakeDirectory(at, mode) => match model.get(at) {
            Some(Thing::Directory(_)) => true,
            Some(_) => false,
            None => make_parents(model, at) && insert(model, at, Thing::Directory(*mode)),
        },
        Op::SetMode(at, new) => match model.get_mut(at) {
            Some(Thing::Directory(mode) | Thing::File(mode, _)) => {
                *mode = *new;
                true
            }
            _ => false,
        },
        Op::Remove(at) => {
            let had = model.contains_key(at);
            model.retain(|path, _| !path.starts_with(at));
            had
        }
        Op::Rename(from, to) => rename(model, from, to),
        Op::Commit => true,
    }
}

fn insert(model: &mut Model, at: &TreePath, thing: Thing) -> bool {
    model.insert(at.clone(), thing);
    true
}

/// Creates the directories above a path; `false` if one of them is a file.
fn make_parents(model: &mut Model, at: &TreePath) -> bool {
    let mut missing = Vec::new();
    let mut above = at.split_last().map(|(parent, _)| parent);
    while let Some(parent) = above.filter(|parent| !parent.is_root()) {
        match model.get(&parent) {
            Some(Thing::Directory(_)) => break,
            Some(_) => return false,
            None => missing.push(parent.clone()),
        }
        above = parent.split_last().map(|(parent, _)| parent);
    }
    // A parent further up may be a file.
    let blocked = missing.iter().any(|parent| {
        let mut up = parent.split_last();
        while let Some((above, _)) = up {
            if matches!(model.get(&above), Some(Thing::File(..) | Thing::Link(_))) {
                return true;
            }
            up = above.split_last();
        }
        false
    });
    if blocked {
        return false;
    }
    missing.into_iter().for_each(|at| {
        model.insert(at, Thing::Directory(Mode::EXECUTABLE));
    });
    true
}

fn rename(model: &mut Model, from: &TreePath, to: &TreePath) -> bool {
    if !model.contains_key(from) {
        return false;
    }
    if from == to {
        return true;
    }
    if to.starts_with(from) || from.starts_with(to) {
        return false;
    }
    let moved: Vec<_> = model
        .iter()
        .filter(|(path, _)| path.starts_with(from))
        .map(|(path, thing)| (path.clone(), thing.clone()))
        .collect();
    let mut after = model.clone();
    after.retain(|path, _| !path.starts_with(from));
    if !make_parents(&mut after, to) {
        return false;
    }
    after.retain(|path, _| !path.starts_with(to));
    for (path, thing) in moved {
        let rest = &path.as_bytes()[from.as_bytes().len()..];
        let moved_to = [to.as_bytes(), rest].concat();
        after.insert(TreePath::new(moved_to).unwrap(), thing);
    }
    *model = after;
    true
}

pub(crate) async fn apply_to_tree(tree: &StateTree, op: &Op) -> Result<(), Error> {
    match op.clone() {
        Op::Write(at, data, mode) => {
            tree.write(
                &at,
                data.into(),
                Attributes {
                    mode,
                    modified: None,
                },
            )
            .await
        }
        Op::Splice(at, offset, remove, data) => tree.splice(&at, offset, remove, data.into()).await,
        Op::Truncate(at, size) => tree.truncate(&at, size).await,
        Op::Symlink(at, target) => tree.symlink(&at, target.into()).await,
        Op::MakeDirectory(at, mode) => tree.make_directory(&at, mode).await,
        Op::SetMode(at, mode) => tree.set_mode(&at, mode).await,
        Op::Remove(at) => tree.remove(&at).await,
        Op::Rename(from, to) => tree.rename(&from, &to).await,
        Op::Commit => tree.commit(info("step")).await.map(drop),
    }
}

/// Returns the changes that a diff of two models must have.
pub(crate) fn expected_changes(before: &Model, after: &Model) -> BTreeMap<TreePath, &'static str> {
    let kind = |thing: &Thing| match thing {
        Thing::File(..) => 0,
        Thing::Directory(_) => 1,
        Thing::Link(_) => 2,
    };
    let mut changes = BTreeMap::new();
    for path in before.keys().chain(after.keys()) {
        let change = match (before.get(path), after.get(path)) {
            (Some(_), None) => "removed",
            (None, _) => "added",
            (Some(old), Some(new)) if old == new => continue,
            (Some(old), Some(new)) if kind(old) != kind(new) => "type",
            (Some(Thing::File(_, old)), Some(Thing::File(_, new))) if old == new => "mode",
            (Some(Thing::Directory(_)), Some(_)) => "mode",
            _ => "modified",
        };
        changes.insert(path.clone(), change);
    }
    changes
}

pub(crate) fn found_changes(changes: &[Change]) -> BTreeMap<TreePath, &'static str> {
    changes
        .iter()
        .map(|change| {
            let kind = match &change.kind {
                ChangeKind::Added(_) => "added",
                ChangeKind::Removed(_) => "removed",
                ChangeKind::Modified { .. } => "modified",
                ChangeKind::ModeChanged { .. } => "mode",
                ChangeKind::TypeChanged { .. } => "type",
            };
            (change.path.clone(), kind)
        })
        .collect()
}
