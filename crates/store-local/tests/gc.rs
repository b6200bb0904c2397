//! Collections delete garbage, and nothing else.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod gc_support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use elevo_core::{TenantId, Timestamp};
use elevo_engine::{
    Expected, GcRoot, GcScope, Guard, MemoryStore, Recent, Repository, StateTree, Store, StoreError,
};
use elevo_objects::SnapshotId;
use elevo_store_local::{LocalStore, Options};
use futures::executor::block_on;
use gc_support::{Files, TENANT, assert_holds, collect, edit, info, repository};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

#[derive(Default)]
struct World {
    branches: BTreeMap<String, (SnapshotId, Files)>,
    /// Snapshots that only a guard keeps.
    held: Vec<(Guard, SnapshotId, Files)>,
    /// Snapshots that a list of roots keeps.
    roots: Vec<(GcRoot, Files)>,
    /// Snapshots that nothing keeps any more.
    loose: Vec<SnapshotId>,
}

impl World {
    fn step(&mut self, repository: &Repository, random: &mut SmallRng) {
        let name = format!("branch{}", random.random_range(0..5));
        match random.random_range(0..12) {
            0..5 => {
                let before = self.branches.get(&name).cloned();
                let (tree, mut files) = match &before {
                    Some((id, files)) => (
                        block_on(StateTree::open(repository, *id)).unwrap(),
                        files.clone(),
                    ),
                    None => (StateTree::empty(repository), Files::new()),
                };
                edit(&tree, &mut files, random);
                let parent = before.map(|(id, _)| id);
                let expected = parent.map_or(Expected::Absent, Expected::At);
                let made = tree.commit(info(parent, Some((name.clone(), expected))));
                self.branches.insert(name, (block_on(made).unwrap(), files));
            }
            5 => {
                if let Some((id, _)) = self.branches.remove(&name) {
                    move_reference(repository, &name, None);
                    self.loose.push(id);
                }
            }
            6 => {
                let from = self.branches.values().next().cloned();
                if let Some((id, files)) = from {
                    move_reference(repository, &name, Some(id));
                    self.branches.insert(name, (id, files));
                }
            }
            7 => {
                let (id, files) = unnamed(repository, random);
                let (held, _) = block_on(repository.hold(id)).unwrap();
                self.held.push((held, id, files));
            }
            8 if !self.held.is_empty() => {
                let (_, id, _) = self.held.swap_remove(0);
                self.loose.push(id);
            }
            9 => {
                let (snapshot, files) = unnamed(repository, random);
                let history = random.random_bool(0.5);
                self.roots.push((GcRoot { snapshot, history }, files));
            }
            10 => self.loose.push(unnamed(repository, random).0),
            _ => {
                let objects = gc_support::content(random);
                let objects = vec![elevo_engine::Object {
                    key: elevo_objects::Kind::Chunk.key(&objects),
                    data: objects.into(),
                }];
                let store = repository.store();
                let writer = block_on(store.writing(TENANT)).unwrap();
                block_on(store.put(TENANT, &writer, objects)).unwrap();
            }
        }
    }

    fn collect(&mut self, repository: &Repository, random: &mut SmallRng) {
        let roots: Vec<_> = self.roots.iter().map(|(root, _)| *root).collect();
        let scope = if random.random_bool(0.5) {
            GcScope::Full
        } else {
            GcScope::Young
        };
        let would = random
            .random_bool(0.3)
            .then(|| collect(repository, scope, true, &roots));
        let report = collect(repository, scope, false, &roots);
        if let Some(would) = would.filter(|_| report.scope == GcScope::Full) {
            let counts = (would.snapshots_removed, would.objects_removed);
            assert_eq!(counts, (report.snapshots_removed, report.objects_removed));
        }
        for (id, files) in self.branches.values() {
            assert_holds(repository, *id, files);
        }
        for (_, id, files) in &self.held {
            assert_holds(repository, *id, files);
        }
        for (root, files) in &self.roots {
            assert_holds(repository, root.snapshot, files);
        }
        if report.scope == GcScope::Full {
            self.nothing_is_left(repository, &roots);
        }
        if random.random_bool(0.3) {
            self.loose
                .extend(self.roots.drain(..).map(|(root, _)| root.snapshot));
        }
    }

    /// Checks that unnamed snapshots are gone, and that a second collection
    /// finds nothing.
    fn nothing_is_left(&mut self, repository: &Repository, roots: &[GcRoot]) {
        let again = collect(repository, GcScope::Full, true, roots);
        assert_eq!((again.snapshots_removed, again.objects_removed), (0, 0));
        let mut named: Vec<_> = self.branches.values().map(|(id, _)| *id).collect();
        named.extend(self.held.iter().map(|(_, id, _)| *id));
        named.extend(self.roots.iter().map(|(root, _)| root.snapshot));
        for id in self.loose.drain(..).filter(|id| !named.contains(id)) {
            let found = block_on(repository.store().snapshots(TENANT, &[id])).unwrap();
            // A snapshot that is still stored must be an ancestor of a kept
            // one.
            if found[0].is_some() {
                assert!(is_history(repository, &named, id), "{id} is still there");
            }
        }
    }
}

fn is_history(repository: &Repository, named: &[SnapshotId], wanted: SnapshotId) -> bool {
    let mut next = named.to_vec();
    while let Some(id) = next.pop() {
        if id == wanted {
            return true;
        }
        if let Ok(snapshot) = block_on(repository.snapshot(id)) {
            next.extend(snapshot.parents);
        }
    }
    false
}

fn unnamed(repository: &Repository, random: &mut SmallRng) -> (SnapshotId, Files) {
    let (tree, mut files) = (StateTree::empty(repository), Files::new());
    edit(&tree, &mut files, random);
    (block_on(tree.commit(info(None, None))).unwrap(), files)
}

fn move_reference(repository: &Repository, name: &str, target: Option<SnapshotId>) {
    let references = vec![elevo_engine::ReferenceUpdate {
        name: name.into(),
        expected: Expected::Any,
        target,
    }];
    let commit = elevo_engine::Commit {
        references,
        ..elevo_engine::Commit::default()
    };
    block_on(repository.store().commit(TENANT, commit)).unwrap();
}

fn many_steps(make: impl Fn() -> Arc<dyn Store>, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let repository = repository(make());
        let mut random = SmallRng::seed_from_u64(seed);
        let mut world = World::default();
        for _ in 0..8 {
            for _ in 0..random.random_range(1..12) {
                world.step(&repository, &mut random);
            }
            world.collect(&repository, &mut random);
        }
    }
}

#[test]
fn only_garbage_is_deleted_in_memory() {
    many_steps(|| Arc::new(MemoryStore::new()), 0..60);
}

#[test]
fn only_garbage_is_deleted_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    let make = || -> Arc<dyn Store> {
        count.set(count.get() + 1);
        let path = directory.path().join(count.get().to_string());
        Arc::new(LocalStore::create(&path, &Options::default()).unwrap())
    };
    many_steps(make, 0..20);
}

#[test]
fn a_young_collection_survives_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let options = Options::default();
    let mut random = SmallRng::seed_from_u64(1);
    let store = repository(Arc::new(LocalStore::create(&path, &options).unwrap()));
    let (kept, files) = unnamed(&store, &mut random);
    move_reference(&store, "kept", Some(kept));
    collect(&store, GcScope::Full, false, &[]);
    drop(store);
    let store = repository(Arc::new(LocalStore::open(&path, &options).unwrap()));
    let (gone, _) = unnamed(&store, &mut random);
    let report = collect(&store, GcScope::Young, false, &[]);
    assert_eq!(
        (report.scope, report.snapshots_removed),
        (GcScope::Young, 1)
    );
    assert!(report.objects_marked == 0, "old snapshots are not walked");
    assert_holds(&store, kept, &files);
    assert!(block_on(store.snapshot(gone)).is_err());
    drop(store);
    let store = LocalStore::open_read_only(&path, &options).unwrap();
    assert_holds(&repository(Arc::new(store)), kept, &files);
}

/// These stores compare the time in the snapshot with the caller's clock.
#[test]
fn only_snapshots_of_the_given_age_are_recent() {
    const COUNT: i64 = 2500;
    let directory = tempfile::tempdir().unwrap();
    let local = LocalStore::create(&directory.path().join("store"), &Options::default()).unwrap();
    let stores: [Arc<dyn Store>; 2] = [Arc::new(local), Arc::new(MemoryStore::new())];
    for store in stores {
        let numbered = |n| elevo_objects::Snapshot {
            tree: elevo_objects::Tree::EMPTY,
            times: None,
            parents: Vec::new(),
            author: String::new(),
            message: String::new(),
            created: Timestamp::new(n, 0).unwrap(),
            labels: BTreeMap::new(),
        };
        let commit = elevo_engine::Commit {
            snapshots: (0..COUNT).map(numbered).collect(),
            ..elevo_engine::Commit::default()
        };
        let ids = block_on(store.commit(TENANT, commit)).unwrap().ids;
        for age in [0, 1, 1700, 5000] {
            let recent = Recent {
                age: Duration::from_secs(age),
                now: Timestamp::new(COUNT - 1, 0).unwrap(),
            };
            let first = ids.len().saturating_sub(age as usize + 1);
            let mut expected = ids[first..].to_vec();
            expected.sort();
            let found = store.snapshots_since(TENANT, recent, None, ids.len());
            assert_eq!(block_on(found).unwrap(), expected, "{age}");
        }
    }
}

#[test]
fn the_space_of_garbage_is_returned_to_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = repository(Arc::new(
        LocalStore::create(&path, &Options::default()).unwrap(),
    ));
    let mut random = SmallRng::seed_from_u64(1);
    let mut files = Files::new();
    let mut make = |name: &str, count: u64| {
        let tree = StateTree::empty(&store);
        for number in 0..count {
            // Incompressible data.
            let mut bytes = vec![0; 100_000];
            rand::Rng::fill_bytes(&mut random, &mut bytes);
            let at = elevo_core::TreePath::new(format!("{name}{number}")).unwrap();
            block_on(tree.write(&at, bytes.clone().into(), Default::default())).unwrap();
            if name == "kept" {
                files.insert(format!("{name}{number}"), bytes);
            }
        }
        block_on(tree.commit(info(None, None))).unwrap()
    };
    let kept = make("kept", 100);
    make("gone", 400);
    move_reference(&store, "kept", Some(kept));
    let size = || -> u64 {
        let files = std::fs::read_dir(path.join("db")).unwrap();
        files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum()
    };
    collect(&store, GcScope::Full, false, &[]);
    assert_holds(&store, kept, &files);
    drop(store);
    // Opening the store again deletes the log.
    let store = repository(Arc::new(
        LocalStore::open(&path, &Options::default()).unwrap(),
    ));
    assert_holds(&store, kept, &files);
    assert!(size() < 25_000_000, "{} bytes", size());
}

#[test]
fn commits_and_reads_race_collections() {
    gc_support::race(Duration::from_secs(4), 7);
}

/// A collection without roots deletes the objects of a tenant; then `forget`
/// deletes its remaining rows.
#[test]
fn a_tenant_is_forgotten_only_once_it_is_empty() {
    const OTHER: TenantId = TenantId::new([7; 16]);
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::create(&directory.path().join("store"), &Options::default());
    let store = Arc::new(store.unwrap());
    let mut random = SmallRng::seed_from_u64(7);
    let mut made = Vec::new();
    for tenant in [TENANT, OTHER] {
        let repository = Repository::new(store.clone(), tenant, 1);
        let tree = StateTree::empty(&repository);
        let mut files = Files::new();
        edit(&tree, &mut files, &mut random);
        let named = Some(("main".to_owned(), Expected::Absent));
        let id = block_on(tree.commit(info(None, named))).unwrap();
        // Marks of this collection must not count later.
        collect(&repository, GcScope::Full, false, &[]);
        made.push((repository, id, files));
    }
    let refused = |result| matches!(result, Err(StoreError::Refused(_)));
    assert!(refused(store.forget(TENANT)));
    let repository = &made[0].0;
    move_reference(repository, "main", None);
    let report = collect(repository, GcScope::Full, false, &[]);
    assert_eq!(report.objects_seen, report.objects_removed);
    store.forget(TENANT).unwrap();
    store.forget(TENANT).unwrap();
    let left = block_on(store.list_snapshots(TENANT, None, 1)).unwrap();
    assert_eq!(left, []);
    let (other, id, files) = &made[1];
    assert_holds(other, *id, files);
    assert!(refused(store.forget(OTHER)));
    collect(other, GcScope::Full, false, &[]);
    assert_holds(other, *id, files);
    // The tenant can then be used like a new one.
    let tree = StateTree::empty(repository);
    let mut files = Files::new();
    edit(&tree, &mut files, &mut random);
    let id = block_on(tree.commit(info(None, None))).unwrap();
    assert_holds(repository, id, &files);
}
