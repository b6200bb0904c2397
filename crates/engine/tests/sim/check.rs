//! Compares the content of the store with the model, without faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use elevo_core::TreePath;
use elevo_engine::{
    GcOptions, GcProgress, GcReport, GcRoot, GcScope, Inspect, Progress, Repository, StateTree,
    Store, VerifyOptions, collect_garbage, verify,
};
use elevo_objects::{
    ChunkItem, Content, DirItem, Entry, Hash, Item, Kind, Node, ObjectKey, SnapshotId, TimeItem,
};
use futures::executor::block_on;

use super::TENANT;
use super::clients::{number_of, path};
use super::model::{Files, Model};
use super::store::Disk;

fn repository(disk: &Disk) -> Repository {
    Repository::new(disk.memory.clone(), TENANT, 1)
}

/// Checks that nothing is missing, that refs have the values that were
/// acknowledged, and that everything kept is intact to the byte.
pub fn check(disk: &Disk, model: &mut Model) {
    let options = VerifyOptions {
        memory: 1 << 16,
        listed: 10,
    };
    let memory: &dyn Inspect = &*disk.memory;
    let found = block_on(verify(memory, TENANT, &options, &Progress::new())).expect("verify");
    assert!(found.is_whole(), "{found:?}");
    let repository = repository(disk);
    let heads = block_on(disk.memory.list_references(TENANT, "", None, usize::MAX));
    let heads: BTreeMap<_, _> = heads.expect("references").into_iter().collect();
    let names: BTreeSet<_> = model.references.keys().chain(heads.keys()).collect();
    for name in names.into_iter().cloned().collect::<Vec<_>>() {
        let id = heads.get(&name).copied();
        let now = id.map(|id| number_of(&snapshot(&repository, id).message));
        model.settle(&name, now);
        if let Some(id) = id {
            check_history(&repository, model, id);
        }
    }
    for root in model.roots.clone() {
        let id = model.attempts[root].id.expect("it was acknowledged");
        check_attempt(&repository, model, root, id);
    }
}

fn snapshot(repository: &Repository, id: SnapshotId) -> elevo_objects::Snapshot {
    block_on(repository.snapshot(id)).expect("a snapshot that must be there")
}

fn check_history(repository: &Repository, model: &mut Model, head: SnapshotId) {
    let mut next = Some(head);
    let number = number_of(&snapshot(repository, head).message);
    for attempt in model.attempts[number].history.clone() {
        let id = next.expect("it has a parent");
        check_attempt(repository, model, attempt, id);
        next = snapshot(repository, id).parents.first().copied();
    }
}

fn check_attempt(repository: &Repository, model: &mut Model, number: usize, id: SnapshotId) {
    let found = snapshot(repository, id);
    assert_eq!(number_of(&found.message), number);
    let attempt = &mut model.attempts[number];
    assert!(attempt.id.is_none_or(|known| known == id));
    attempt.id = Some(id);
    if !std::mem::replace(&mut attempt.is_checked, true) {
        let tree = StateTree::at(repository, &found);
        check_directory(&tree, &attempt.files, "");
    }
}

/// Checks that a directory of a tree has the expected content, and nothing
/// else.
fn check_directory(tree: &StateTree, files: &Files, at: &str) {
    let directory = match at {
        "" => TreePath::root(),
        at => path(at),
    };
    let prefix = if at.is_empty() {
        String::new()
    } else {
        format!("{at}/")
    };
    let listed = block_on(tree.list(&directory, None, usize::MAX)).expect("a list");
    let within = |name: &&String| {
        name.strip_prefix(&prefix)
            .is_some_and(|rest| !rest.contains('/'))
    };
    let names = files.files.keys().chain(&files.directories);
    let expected: BTreeSet<_> = names.filter(within).cloned().collect();
    let found = listed.iter().map(|(name, _)| format!("{prefix}{name}"));
    assert_eq!(found.collect::<BTreeSet<_>>(), expected, "in `{at}`");
    for (name, (_, stat)) in expected.iter().zip(&listed) {
        match files.files.get(name) {
            Some(file) => {
                let read = block_on(tree.read(&path(name))).expect("a file");
                assert!(read == file.bytes, "{name} has other bytes");
                assert_eq!(stat.modified, file.modified, "{name}");
            }
            None => check_directory(tree, files, name),
        }
    }
}

/// Checks that after an undisturbed collection, only needed objects are left.
pub fn check_garbage(disk: &Disk, model: &Model) {
    let repository = repository(disk);
    let roots = model.roots.iter().map(|at| model.attempts[*at].id);
    let roots: Vec<SnapshotId> = roots.flatten().collect();
    let counted = collect(&repository, &roots, true);
    let removed = collect(&repository, &roots, false);
    assert_eq!(counted.objects_removed, removed.objects_removed);
    assert_eq!(counted.snapshots_removed, removed.snapshots_removed);
    check_rest(disk, model);
}

/// Checks that the store has only needed objects.
pub fn check_rest(disk: &Disk, model: &Model) {
    let repository = repository(disk);
    let roots = model.roots.iter().map(|at| model.attempts[*at].id);
    let roots: Vec<SnapshotId> = roots.flatten().collect();
    let (snapshots, objects) = reachable(&repository, &roots);
    let found = block_on(disk.memory.list_snapshots(TENANT, None, usize::MAX));
    assert_eq!(found.expect("snapshots").len(), snapshots, "snapshots");
    assert_eq!(disk.memory.usage(TENANT).0, objects, "objects");
}

fn collect(repository: &Repository, roots: &[SnapshotId], dry_run: bool) -> GcReport {
    let options = GcOptions {
        scope: GcScope::Full,
        dry_run,
        keep_recent: None,
    };
    let root = |snapshot: &SnapshotId| {
        Ok(GcRoot {
            snapshot: *snapshot,
            history: false,
        })
    };
    let mut roots = roots.iter().map(root);
    let progress = GcProgress::default();
    collect_garbage(repository, &mut roots, &options, &mut |_| false, &progress).expect("a report")
}

/// Number of snapshots and objects that the refs and `roots` need.
fn reachable(repository: &Repository, roots: &[SnapshotId]) -> (usize, usize) {
    let store = repository.store();
    let heads = block_on(store.list_references(TENANT, "", None, usize::MAX));
    let mut next: Vec<_> = heads
        .expect("references")
        .into_iter()
        .map(|(_, id)| id)
        .collect();
    let mut snapshots = BTreeSet::new();
    let mut objects = BTreeSet::new();
    while let Some(id) = next.pop() {
        let found = block_on(store.snapshots(TENANT, &[id])).expect("snapshots");
        if let Some(found) = found.into_iter().flatten().next()
            && snapshots.insert(id)
        {
            next.extend(found.parents);
        }
    }
    snapshots.extend(roots);
    for id in &snapshots {
        let found = snapshot(repository, *id);
        let tree = found.tree.root.map(|hash| (Kind::Directory, hash));
        let times = found.times.map(|hash| (Kind::Times, hash));
        for (kind, hash) in tree.into_iter().chain(times) {
            reach(store, ObjectKey { kind, hash }, &mut objects);
        }
    }
    (snapshots.len(), objects.len())
}

fn reach(store: &Arc<dyn Store>, key: ObjectKey, seen: &mut BTreeSet<ObjectKey>) {
    if !seen.insert(key) || key.kind == Kind::Chunk {
        return;
    }
    let data = block_on(store.get(TENANT, &[key])).expect("an answer");
    let data = data.into_iter().flatten().next().expect("an object");
    let below = match key.kind {
        Kind::Directory => below::<DirItem>(&data, |item| match item.entry {
            Entry::Directory { tree, .. } => tree.root.map(|hash| (Kind::Directory, hash)),
            Entry::Link(link) => Some((Kind::Chunk, link.hash)),
            Entry::File { content, .. } => match content {
                Content::Empty => None,
                Content::Chunk { hash, .. } => Some((Kind::Chunk, hash)),
                Content::List { hash, .. } => Some((Kind::ChunkList, hash)),
            },
        }),
        Kind::Times => below::<TimeItem>(&data, |item| {
            item.entry.children.map(|hash| (Kind::Times, hash))
        }),
        _ => below::<ChunkItem>(&data, |item| Some((Kind::Chunk, item.hash))),
    };
    for (kind, hash) in below {
        reach(store, ObjectKey { kind, hash }, seen);
    }
}

fn below<I: Item>(
    data: &bytes::Bytes,
    of: impl Fn(I) -> Option<(Kind, Hash)>,
) -> Vec<(Kind, Hash)> {
    match Node::<I>::decode(data).expect("a node") {
        Node::Leaf(items) => items.into_iter().filter_map(of).collect(),
        Node::Index { children, .. } => {
            let children = children.into_iter();
            children.map(|child| (I::KIND, child.hash)).collect()
        }
    }
}
