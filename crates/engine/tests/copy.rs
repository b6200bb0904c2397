//! A copy of a store is complete, also after interruptions.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{
    Attributes, Commit, CommitInfo, Committed, Copied, CopyOptions, DamageKind, Error, Expected,
    GcOptions, GcProgress, GcScope, Held, Inspect, MemoryStore, Object, Progress, ReferenceUpdate,
    Repository, StateTree, Store, StoreError, StoreLayer, StoreResult, Verified, VerifyOptions,
    Writer, check_copy, collect_garbage, copy_tenant, verify,
};
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId};
use futures::executor::block_on;
use proptest::prelude::*;
use support::{TENANT, info, noise, path};

/// A store that counts some calls, and fails after a number of them.
struct Watched {
    below: Arc<MemoryStore>,
    /// Calls until all fail.
    left: AtomicI64,
    /// Whether changes are allowed.
    is_target: bool,
    objects_read: AtomicU64,
    objects_put: AtomicU64,
}

impl Watched {
    fn new(below: &Arc<MemoryStore>, is_target: bool, left: i64) -> Self {
        Self {
            below: below.clone(),
            left: left.into(),
            is_target,
            objects_read: 0.into(),
            objects_put: 0.into(),
        }
    }

    fn step(&self) -> StoreResult<()> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            1.. => Ok(()),
            _ => Err(StoreError::Unavailable("cut off".into())),
        }
    }

    fn change(&self) -> StoreResult<()> {
        assert!(self.is_target, "the source is only read");
        self.step()
    }
}

#[async_trait]
impl StoreLayer for Watched {
    fn below(&self) -> &dyn Store {
        self.below.as_ref()
    }

    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        self.step()?;
        let count = keys.len() as u64;
        self.objects_read.fetch_add(count, Ordering::Relaxed);
        self.below.get(tenant, keys).await
    }

    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.step()?;
        self.below.contains(tenant, keys).await
    }

    async fn put(
        &self,
        tenant: TenantId,
        writer: &Writer,
        objects: Vec<Object>,
    ) -> StoreResult<()> {
        self.change()?;
        let count = objects.len() as u64;
        self.objects_put.fetch_add(count, Ordering::Relaxed);
        self.below.put(tenant, writer, objects).await
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        self.change()?;
        self.below.commit(tenant, commit).await
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        self.step()?;
        self.below.snapshots(tenant, ids).await
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        self.step()?;
        self.below.list_snapshots(tenant, after, limit).await
    }

    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        self.step()?;
        self.below.reference(tenant, name).await
    }

    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        self.step()?;
        let below = self.below.as_ref();
        below.list_references(tenant, prefix, after, limit).await
    }

    async fn writing(&self, tenant: TenantId) -> StoreResult<Writer> {
        self.change()?;
        self.below.writing(tenant).await
    }

    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>> {
        self.step()?;
        self.below.hold(tenant, snapshots).await
    }
}

const ENDLESS: i64 = i64::MAX;

fn copy(source: &Watched, target: &Watched, options: &CopyOptions) -> Result<Copied, Error> {
    let progress = Progress::new();
    block_on(copy_tenant(source, target, TENANT, options, &progress))
}

fn copy_all(source: &Arc<MemoryStore>, target: &Arc<MemoryStore>) -> Copied {
    let (source, target) = (
        Watched::new(source, false, ENDLESS),
        Watched::new(target, true, ENDLESS),
    );
    copy(&source, &target, &CopyOptions::default()).unwrap()
}

fn check(source: &Arc<MemoryStore>, target: &Arc<MemoryStore>) -> Copied {
    let target = Watched::new(target, false, ENDLESS);
    let (options, progress) = (CopyOptions::default(), Progress::new());
    let checked = check_copy(source.as_ref(), &target, TENANT, &options, &progress);
    block_on(checked).unwrap()
}

fn verify_all(store: &MemoryStore) -> Verified {
    let (options, progress) = (VerifyOptions::default(), Progress::new());
    block_on(verify(store, TENANT, &options, &progress)).unwrap()
}

type References = Vec<(String, SnapshotId)>;

fn content(store: &MemoryStore) -> (Vec<Snapshot>, References) {
    let ids = block_on(store.list_snapshots(TENANT, None, usize::MAX)).unwrap();
    let snapshots = block_on(store.snapshots(TENANT, &ids)).unwrap();
    let references = block_on(store.list_references(TENANT, "", None, usize::MAX)).unwrap();
    (snapshots.into_iter().flatten().collect(), references)
}

fn assert_equal(source: &Arc<MemoryStore>, target: &Arc<MemoryStore>) {
    assert_eq!(content(source), content(target));
    let found = verify_all(target);
    assert!(found.is_whole(), "{found:?}");
    let checked = check(source, target);
    assert!(checked.is_whole(), "{checked:?}");
    assert!(checked.extra_references.is_empty());
}

/// A snapshot to make: on which earlier one it is built, if any, the files it
/// changes, and the ref to it.
#[derive(Clone, Debug)]
struct Step {
    on: Option<prop::sample::Index>,
    files: Vec<(String, usize)>,
    reference: Option<u8>,
}

fn any_step() -> impl Strategy<Value = Step> {
    let at = prop_oneof![
        (0..200_u32).prop_map(|n| format!("wide/file{n}")),
        (0..3_u32, 0..3_u32).prop_map(|(a, b)| format!("a/b{a}/c{b}")),
        Just("large".to_owned()),
    ];
    let files = prop::collection::vec((at, 1..90_000_usize), 0..5);
    let on = proptest::option::weighted(0.8, any::<prop::sample::Index>());
    let reference = proptest::option::of(0..5_u8);
    (on, files, reference).prop_map(|(on, files, reference)| Step {
        on,
        files,
        reference,
    })
}

fn write(tree: &StateTree, at: &str, seed: u64, length: usize) {
    let data = Bytes::from(noise(seed + length as u64, length));
    let attributes = Attributes {
        mode: None,
        modified: Timestamp::new(seed as i64, 0),
    };
    block_on(tree.write(&path(at), data, attributes)).unwrap();
}

/// Builds a store whose snapshots share most of their trees.
fn build(steps: &[Step]) -> (Arc<MemoryStore>, Vec<SnapshotId>) {
    let (store, repository) = support::repository();
    let first = StateTree::empty(&repository);
    for n in 0..150 {
        write(&first, &format!("wide/file{n}"), n, 5);
    }
    write(&first, "large", 1, 400_000);
    let mut ids = vec![block_on(first.commit(info("first"))).unwrap()];
    for (round, step) in steps.iter().enumerate() {
        let on = step.on.map(|at| ids[at.index(ids.len())]);
        let tree = match on {
            Some(id) => block_on(StateTree::open(&repository, id)).unwrap(),
            None => StateTree::empty(&repository),
        };
        for (at, length) in &step.files {
            write(&tree, at, round as u64, *length);
        }
        let info = CommitInfo {
            parents: on.into_iter().collect(),
            ..info(&format!("step {round}"))
        };
        let id = block_on(tree.commit(info)).unwrap();
        if let Some(name) = step.reference {
            set(&store, &format!("ref{name}"), id);
        }
        ids.push(id);
    }
    (store, ids)
}

fn set(store: &MemoryStore, name: &str, id: SnapshotId) {
    let update = ReferenceUpdate {
        name: name.into(),
        expected: Expected::Any,
        target: Some(id),
    };
    let commit = Commit {
        references: vec![update],
        ..Commit::default()
    };
    block_on(store.commit(TENANT, commit)).unwrap();
}

/// A chain of snapshots with a changed file each.
fn chain(length: usize) -> (Arc<MemoryStore>, Vec<SnapshotId>) {
    let (store, repository) = support::repository();
    let tree = StateTree::empty(&repository);
    for n in 0..600 {
        write(&tree, &format!("d{}/file{n}", n % 12), n, 5);
    }
    let mut ids = Vec::new();
    for round in 0..length {
        write(&tree, &format!("d3/file{round}"), round as u64, 100);
        let info = CommitInfo {
            parents: ids.last().copied().into_iter().collect(),
            ..info(&format!("{round}"))
        };
        ids.push(block_on(tree.commit(info)).unwrap());
    }
    set(&store, "head", ids[length - 1]);
    (store, ids)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_interrupted_copy_continues_until_both_stores_are_equal(
        steps in prop::collection::vec(any_step(), 0..12),
        first in 1..60_i64,
        more in 1..20_i64,
        commit_bytes in prop_oneof![Just(1), Just(20_000), Just(1 << 30)],
    ) {
        let (source, _) = build(&steps);
        let target = Arc::new(MemoryStore::new());
        let options = CopyOptions { memory: 0, commit_bytes, listed: 10 };
        let (mut calls, mut put) = (first, 0);
        loop {
            // Each store is cut off in turn.
            let (of_source, of_target) = match calls % 2 {
                0 => (ENDLESS, calls),
                _ => (calls, ENDLESS),
            };
            let from = Watched::new(&source, false, of_source);
            let to = Watched::new(&target, true, of_target);
            let copied = copy(&from, &to, &options);
            put += to.objects_put.load(Ordering::Relaxed);
            match copied {
                Ok(copied) => {
                    prop_assert!(copied.is_whole(), "{copied:?}");
                    break;
                }
                Err(Error::Store(StoreError::Unavailable(_))) => calls += more,
                Err(error) => panic!("{error}"),
            }
        }
        assert_equal(&source, &target);
        if commit_bytes == 1 {
            // An interruption repeats at most the objects of one put.
            let objects = target.usage(TENANT).0 as u64;
            let repeated = 64 * (calls - first) as u64 / more as u64;
            prop_assert!(put <= objects + repeated, "{put} of {objects}");
        }
        let again = copy_all(&source, &target);
        prop_assert!(again.has_sent_nothing(), "{again:?}");
        prop_assert_eq!(again.objects_read, 0);
    }

    #[test]
    fn snapshots_without_the_damaged_objects_are_copied(
        steps in prop::collection::vec(any_step(), 1..8),
        harm in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..4),
    ) {
        let (source, ids) = build(&steps);
        for (n, id) in ids.iter().enumerate() {
            set(&source, &format!("each{n}"), *id);
        }
        let mut keys = Vec::new();
        for kind in [Kind::Chunk, Kind::Directory, Kind::Times, Kind::ChunkList] {
            let hashes = block_on(source.list_objects(TENANT, kind, None, usize::MAX)).unwrap();
            keys.extend(hashes.into_iter().map(|hash| ObjectKey { kind, hash }));
        }
        let mut harmed = BTreeMap::new();
        for (at, is_gone) in harm {
            let key = keys[at.index(keys.len())];
            let data = (!is_gone).then(|| Bytes::from_static(b"something else"));
            let kind = if is_gone { DamageKind::Missing } else { DamageKind::HashMismatch };
            harmed.insert(key, kind);
            source.damage(TENANT, key, data);
        }
        // Snapshots that need them, found in a simple way.
        let broken: Vec<_> = ids.iter().copied().filter(|id| needs_any(&source, *id, &harmed)).collect();
        let target = Arc::new(MemoryStore::new());
        let copied = copy_all(&source, &target);
        let mut failed = copied.failed_snapshots.clone();
        failed.sort_unstable();
        let mut expected = broken.clone();
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(&failed, &expected);
        // An object below a damaged node is not found.
        for damage in &copied.damage {
            prop_assert_eq!(harmed.get(&damage.key), Some(&damage.kind));
        }
        prop_assert_eq!(copied.damage.is_empty(), broken.is_empty());
        let (snapshots, references) = content(&target);
        let whole = content(&source).0.len() - expected.len();
        prop_assert_eq!(snapshots.len(), whole);
        prop_assert!(references.iter().all(|(_, id)| !broken.contains(id)));
        let left: Vec<_> = content(&source).1.into_iter().filter(|(_, id)| broken.contains(id)).collect();
        prop_assert_eq!(copied.failed_references.len(), left.len());
        prop_assert!(verify_all(&target).is_whole());
        prop_assert_eq!(check(&source, &target).failed_snapshots.len(), expected.len());
    }
}

/// Whether a snapshot needs one of these objects.
fn needs_any(
    store: &Arc<MemoryStore>,
    id: SnapshotId,
    harmed: &BTreeMap<ObjectKey, DamageKind>,
) -> bool {
    // A store with only this snapshot fails to verify.
    let snapshot = block_on(store.snapshots(TENANT, &[id]))
        .unwrap()
        .remove(0)
        .unwrap();
    let found = verify_all(store);
    let is_it = |damage: &elevo_engine::Damage| {
        harmed.contains_key(&damage.key) && damage.paths.iter().any(|at| at.snapshot == id)
    };
    snapshot.tree.root.is_some() && found.damage.iter().any(is_it)
}

#[test]
fn snapshots_that_share_their_trees_are_not_walked_in_full() {
    let (source, ids) = chain(300);
    let target = Arc::new(MemoryStore::new());
    let from = Watched::new(&source, false, ENDLESS);
    let to = Watched::new(&target, true, ENDLESS);
    let copied = copy(&from, &to, &CopyOptions::default()).unwrap();
    assert!(copied.is_whole(), "{copied:?}");
    assert_eq!(copied.snapshots_sent, ids.len() as u64);
    let objects = source.usage(TENANT).0 as u64;
    assert_eq!(copied.objects_sent, objects);
    assert_eq!(from.objects_read.load(Ordering::Relaxed), objects);
    let checked = check(&source, &target);
    assert_eq!(checked.objects_read, objects);
}

#[test]
fn a_damaged_object_does_not_have_each_snapshot_walked_in_full() {
    let (source, ids) = chain(300);
    let repository = Repository::new(source.clone(), TENANT, 1 << 20);
    let tree = block_on(StateTree::open(&repository, ids[0])).unwrap();
    let data = block_on(tree.read(&path("d5/file5"))).unwrap();
    let key = Kind::Chunk.key(&data);
    source.damage(TENANT, key, None);
    let target = Arc::new(MemoryStore::new());
    let from = Watched::new(&source, false, ENDLESS);
    let to = Watched::new(&target, true, ENDLESS);
    let copied = copy(&from, &to, &CopyOptions::default()).unwrap();
    assert_eq!(copied.failed_snapshots.len(), ids.len());
    assert_eq!(copied.damage.len(), 1);
    assert_eq!(
        (copied.damage[0].key, &copied.damage[0].kind),
        (key, &DamageKind::Missing)
    );
    assert_eq!(copied.failed_references, ["head"]);
    let objects = source.usage(TENANT).0 as u64;
    let read = from.objects_read.load(Ordering::Relaxed);
    // Root and directories of each snapshot, of 612 nodes and chunks.
    assert!(
        read < objects + 30 * ids.len() as u64,
        "{read} of {objects}"
    );
}

#[test]
fn a_second_copy_brings_what_is_new_and_lists_other_refs() {
    let (source, ids) = chain(3);
    let target = Arc::new(MemoryStore::new());
    assert!(copy_all(&source, &target).is_whole());
    let repository = Repository::new(source.clone(), TENANT, 1 << 20);
    let tree = block_on(StateTree::open(&repository, ids[2])).unwrap();
    write(&tree, "new", 9, 10);
    let new = block_on(tree.commit(info("new"))).unwrap();
    set(&source, "head", new);
    set(&target, "only here", ids[0]);
    let before = check(&source, &target);
    assert_eq!(before.failed_snapshots, [new]);
    assert_eq!(before.failed_references, ["head"]);
    let copied = copy_all(&source, &target);
    assert!(copied.is_whole());
    assert_eq!((copied.snapshots, copied.snapshots_sent), (4, 1));
    assert!(copied.objects_sent < 10, "{copied:?}");
    assert_eq!((copied.references, copied.references_sent), (1, 1));
    assert_eq!(copied.extra_references, ["only here"]);
    assert_eq!(
        block_on(target.reference(TENANT, "head")).unwrap(),
        Some(new)
    );
}

#[test]
fn a_check_finds_damage_in_the_target() {
    let (source, ids) = chain(3);
    let target = Arc::new(MemoryStore::new());
    assert!(copy_all(&source, &target).is_whole());
    let hashes = block_on(target.list_objects(TENANT, Kind::Chunk, None, 1)).unwrap();
    let key = ObjectKey {
        kind: Kind::Chunk,
        hash: hashes[0],
    };
    target.damage(TENANT, key, Some(Bytes::from_static(b"another")));
    let checked = check(&source, &target);
    assert_eq!(checked.damage[0].key, key);
    assert!(!checked.failed_snapshots.is_empty());
    assert!(checked.failed_snapshots.iter().all(|id| ids.contains(id)));
    // A copy trusts what the target has.
    assert!(copy_all(&source, &target).has_sent_nothing());
}

#[test]
fn a_collection_of_the_target_waits_for_the_copy() {
    /// Tries to collect the garbage of the target before each commit.
    struct Collecting(Arc<MemoryStore>, AtomicU64);

    #[async_trait]
    impl StoreLayer for Collecting {
        fn below(&self) -> &dyn Store {
            self.0.as_ref()
        }

        async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
            let repository = Repository::new(self.0.clone(), tenant, 0);
            let options = GcOptions {
                scope: GcScope::Full,
                dry_run: false,
                keep_recent: None,
            };
            let mut no_roots = std::iter::empty();
            let mut give_up = |_| false;
            let collected = std::thread::scope(|scope| {
                let collect = || {
                    let progress = GcProgress::default();
                    collect_garbage(
                        &repository,
                        &mut no_roots,
                        &options,
                        &mut give_up,
                        &progress,
                    )
                    .is_ok()
                };
                scope.spawn(collect).join().unwrap()
            });
            assert!(!collected);
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.commit(tenant, commit).await
        }
    }

    let (source, _) = chain(20);
    let target = Arc::new(MemoryStore::new());
    let collecting = Collecting(target.clone(), 0.into());
    let options = CopyOptions {
        commit_bytes: 1,
        ..CopyOptions::default()
    };
    let progress = Progress::new();
    let copied = copy_tenant(source.as_ref(), &collecting, TENANT, &options, &progress);
    assert!(block_on(copied).unwrap().is_whole());
    assert!(collecting.1.load(Ordering::Relaxed) > 10);
    assert_equal(&source, &target);
}

#[test]
fn a_copy_can_be_cancelled() {
    let (source, _) = chain(3);
    let target = Arc::new(MemoryStore::new());
    let progress = Progress::new();
    progress.cancel();
    let options = CopyOptions::default();
    let copied = copy_tenant(
        source.as_ref(),
        target.as_ref(),
        TENANT,
        &options,
        &progress,
    );
    assert!(matches!(block_on(copied), Err(Error::Cancelled)));
}
