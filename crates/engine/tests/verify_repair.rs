//! `verify` reports damage and the paths that need it; `repair` restores it.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::{TenantId, TreePath};
use elevo_engine::{
    Attributes, Commit, DamageKind, Error, Expected, ImportOptions, Inspect, MemoryStore, Progress,
    ReferenceUpdate, RepairSource, Repository, RowRepair, StateTree, Store, StoreError, StoreLayer,
    StoreResult, Verified, VerifyOptions, import, repair, verify,
};
use elevo_objects::{Hash, Kind, ObjectKey, Snapshot, SnapshotId};
use futures::executor::block_on;
use proptest::prelude::*;
use support::{TENANT, Thing, info, noise, path, read_all};

fn check_with(store: &MemoryStore, options: &VerifyOptions) -> Verified {
    block_on(verify(store, TENANT, options, &Progress::new())).unwrap()
}

fn check(store: &MemoryStore) -> Verified {
    check_with(store, &VerifyOptions::default())
}

fn repair_from(store: &Arc<MemoryStore>, sources: &[RepairSource<'_>]) -> elevo_engine::Repaired {
    let store: Arc<dyn Inspect> = store.clone();
    let options = VerifyOptions::default();
    repair(&store, TENANT, sources, &options, &Progress::new()).unwrap()
}

fn all_keys(store: &MemoryStore) -> Vec<ObjectKey> {
    let mut keys = Vec::new();
    for kind in [Kind::Chunk, Kind::Directory, Kind::Times, Kind::ChunkList] {
        let hashes = block_on(store.list_objects(TENANT, kind, None, usize::MAX)).unwrap();
        keys.extend(hashes.into_iter().map(|hash| ObjectKey { kind, hash }));
    }
    keys
}

/// Builds a store with snapshots that share most of their trees: each adds or
/// changes some files. Some files and directories are large.
fn build(edits: &[Vec<(String, usize)>]) -> (Arc<MemoryStore>, Vec<SnapshotId>) {
    let (store, repository) = support::repository();
    let tree = StateTree::empty(&repository);
    let wide = (0..150).map(|n| (format!("wide/file{n}"), 5));
    let deep = [
        ("a/b/c/d/e/f".to_owned(), 2000),
        ("large".to_owned(), 400_000),
    ];
    for (n, (at, length)) in wide.chain(deep).enumerate() {
        write(&tree, &at, n as u64, length);
    }
    let mut ids = vec![block_on(tree.commit(info("first"))).unwrap()];
    for (round, edit) in edits.iter().enumerate() {
        for (at, length) in edit {
            write(&tree, at, round as u64, *length);
        }
        let id = block_on(tree.commit(info(&format!("edit {round}")))).unwrap();
        ids.push(id);
    }
    (store, ids)
}

fn write(tree: &StateTree, at: &str, seed: u64, length: usize) {
    let data = Bytes::from(noise(seed + length as u64, length));
    let attributes = Attributes {
        mode: None,
        modified: elevo_core::Timestamp::new(seed as i64, 0),
    };
    block_on(tree.write(&path(at), data, attributes)).unwrap();
}

/// The content of each snapshot, path by path; `None` for a path that cannot be
/// read.
type Read = BTreeMap<(SnapshotId, TreePath), Option<Bytes>>;

fn read_each(store: &Arc<MemoryStore>, known: &[(SnapshotId, TreePath)]) -> Read {
    let repository = Repository::new(store.clone(), TENANT, 1 << 20);
    let mut trees = BTreeMap::new();
    let mut read = Read::new();
    for (id, path) in known {
        let tree = trees
            .entry(*id)
            .or_insert_with(|| block_on(StateTree::open(&repository, *id)).unwrap());
        let data = block_on(tree.read(path));
        read.insert((*id, path.clone()), data.ok());
    }
    read
}

fn files(store: &Arc<MemoryStore>, ids: &[SnapshotId]) -> Vec<(SnapshotId, TreePath)> {
    let repository = Repository::new(store.clone(), TENANT, 1 << 20);
    let mut files = Vec::new();
    for id in ids {
        let tree = block_on(StateTree::open(&repository, *id)).unwrap();
        let things = read_all(&tree).into_iter();
        let things = things.filter(|(_, thing)| matches!(thing, Thing::File(..)));
        files.extend(things.map(|(path, _)| (*id, path)));
    }
    files
}

fn any_edit() -> impl Strategy<Value = Vec<(String, usize)>> {
    let at = prop_oneof![
        (0..200_u32).prop_map(|n| format!("wide/file{n}")),
        (0..3_u32, 0..3_u32).prop_map(|(a, b)| format!("a/b{a}/c{b}")),
        Just("large".to_owned()),
    ];
    prop::collection::vec((at, 1..90_000_usize), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn exactly_the_unreadable_paths_are_reported_and_repaired(
        edits in prop::collection::vec(any_edit(), 1..4),
        harm in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..6),
    ) {
        let (store, ids) = build(&edits);
        let (twin, _) = build(&edits);
        let known = files(&store, &ids);
        let whole = read_each(&store, &known);
        prop_assert!(check(&store).is_whole());

        let keys = all_keys(&store);
        let mut harmed = BTreeMap::new();
        for (at, is_gone) in harm {
            let key = keys[at.index(keys.len())];
            let data = (!is_gone).then(|| Bytes::from_static(b"something else"));
            harmed.insert(key, is_gone);
            store.damage(TENANT, key, data);
        }
        let found = check(&store);
        let told: BTreeMap<_, _> = found
            .damage
            .iter()
            .map(|damage| (damage.key, damage.kind == DamageKind::Missing))
            .collect();
        // A missing object can be reported only if an object that refers to it
        // is stored.
        prop_assert!(told.iter().all(|(key, gone)| harmed.get(key) == Some(gone)));
        let unseen = harmed.iter().filter(|(key, _)| !told.contains_key(key));
        let unseen: Vec<_> = unseen.collect();
        prop_assert!(unseen.iter().all(|(_, gone)| **gone), "{unseen:?}");
        prop_assert!(unseen.is_empty() || told.keys().any(|key| key.kind != Kind::Chunk));

        let now = read_each(&store, &known);
        let places: BTreeSet<_> = found
            .damage
            .iter()
            .flat_map(|damage| damage.paths.iter().map(|place| (damage.key.kind, place)))
            .map(|(kind, place)| (place.snapshot, place.path.clone(), kind == Kind::Times))
            .collect();
        let lost: Vec<_> = known.iter().filter(|file| now[file] != whole[file]).collect();
        let covers = |(snapshot, place, _): &(SnapshotId, TreePath, bool), (id, file): &(SnapshotId, TreePath)| {
            snapshot == id && file.starts_with(place)
        };
        for file in &lost {
            prop_assert!(places.iter().any(|place| covers(place, file)), "{file:?}");
        }
        // The loss of a time tree affects no content, so its paths are not
        // checked here.
        for place in places.iter().filter(|(_, _, is_time)| !is_time) {
            prop_assert!(lost.iter().any(|file| covers(place, file)), "{place:?}");
        }

        // Without any memory the result is the same.
        let forgetful = VerifyOptions { memory: 0, ..VerifyOptions::default() };
        prop_assert_eq!(&check_with(&store, &forgetful), &found);
        // With a short list, the counts are the same.
        let short = check_with(&store, &VerifyOptions { listed: 1, ..VerifyOptions::default() });
        prop_assert_eq!(short.snapshots_touched, found.snapshots_touched);
        prop_assert_eq!(short.paths_touched, found.paths_touched);
        prop_assert_eq!(short.is_whole(), found.is_whole());

        let other: &dyn Store = twin.as_ref();
        let repaired = repair_from(&store, &[RepairSource::Store(other)]);
        prop_assert!(repaired.after.is_whole(), "{:?}", repaired.after);
        prop_assert_eq!(read_each(&store, &known), whole);
    }
}

#[test]
fn a_directory_that_still_has_the_files_repairs_everything_made_from_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::create_dir_all(at.join("a/b")).unwrap();
    fs::write(at.join("a/b/small"), "small").unwrap();
    fs::write(at.join("large"), noise(1, 600_000)).unwrap();
    std::os::unix::fs::symlink("large", at.join("link")).unwrap();
    let (store, repository) = support::repository();
    let options = ImportOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let imported = import(&repository, at, &options, &Progress::new()).unwrap();
    let id = block_on(imported.commit(&repository, info("all"))).unwrap();
    let keys = all_keys(&store);
    assert!(keys.iter().any(|key| key.kind == Kind::ChunkList));
    let known = files(&store, &[id]);
    let whole = read_each(&store, &known);

    for harmed in keys.iter().map(|key| vec![*key]).chain([keys.clone()]) {
        for key in &harmed {
            store.damage(TENANT, *key, None);
        }
        assert!(!check(&store).is_whole());
        let repaired = repair_from(&store, &[RepairSource::Directory(at, &options)]);
        assert!(repaired.after.is_whole(), "{repaired:?}");
        assert_eq!(repaired.mended, harmed.len() as u64);
        assert_eq!(read_each(&store, &known), whole);
    }

    // A file that was changed since the snapshot cannot repair it, and does no
    // harm.
    fs::write(at.join("a/b/small"), "other").unwrap();
    let small = Kind::Chunk.key(b"small");
    store.damage(TENANT, small, None);
    let repaired = repair_from(&store, &[RepairSource::Directory(at, &options)]);
    assert_eq!(repaired.mended, 0);
    let left = &repaired.after.damage;
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].key, left[0].needed), (small, true));
    assert_eq!(left[0].paths[0].path, path("a/b/small"));
    assert_eq!(left[0].paths[0].snapshot, id);
}

#[test]
fn damaged_objects_that_nothing_needs_are_deleted() {
    let (store, _) = build(&[]);
    let stray = Kind::Chunk.key(b"stray");
    store.damage(TENANT, stray, Some("other".into()));
    let found = check(&store);
    assert_eq!(found.damage.len(), 1);
    assert!(!found.damage[0].needed);
    assert_eq!(found.damage[0].kind, DamageKind::HashMismatch);
    let repaired = repair_from(&store, &[]);
    assert_eq!((repaired.removed, repaired.mended), (1, 0));
    assert!(repaired.after.is_whole());
    let there = block_on(store.contains(TENANT, &[stray])).unwrap();
    assert_eq!(there, [false]);
}

#[test]
fn a_dangling_reference_is_reported_and_repaired_from_another_store() {
    let (store, _) = build(&[]);
    let (other, repository) = support::repository();
    let tree = StateTree::empty(&repository);
    let id = block_on(tree.commit(info("lost"))).unwrap();
    let lost = ReferenceUpdate {
        name: "head".into(),
        expected: Expected::Absent,
        target: Some(id),
    };
    let commit = Commit {
        references: vec![lost],
        ..Commit::default()
    };
    block_on(store.commit(TENANT, commit)).unwrap();
    let found = check(&store);
    assert_eq!(found.lost_references, ["head"]);
    assert_eq!(found.damage[0].kind, DamageKind::Missing);
    assert_eq!(found.damage[0].key.hash, id.0);
    let source: &dyn Store = other.as_ref();
    let repaired = repair_from(&store, &[RepairSource::Store(source)]);
    assert!(repaired.after.is_whole(), "{repaired:?}");
}

/// A store that is away for one of the calls that read it.
struct Flaky {
    below: Arc<MemoryStore>,
    calls: AtomicU64,
    away_at: u64,
}

impl Flaky {
    fn step(&self) -> StoreResult<()> {
        match self.calls.fetch_add(1, Ordering::Relaxed) == self.away_at {
            true => Err(StoreError::Unavailable("away".into())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl StoreLayer for Flaky {
    fn below(&self) -> &dyn Store {
        self.below.as_ref()
    }

    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        self.step()?;
        self.below.get(tenant, keys).await
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
        let below = &self.below;
        below.list_references(tenant, prefix, after, limit).await
    }
}

#[async_trait]
impl Inspect for Flaky {
    async fn list_objects(
        &self,
        tenant: TenantId,
        kind: Kind,
        after: Option<Hash>,
        limit: usize,
    ) -> StoreResult<Vec<Hash>> {
        self.step()?;
        self.below.list_objects(tenant, kind, after, limit).await
    }

    async fn repair_rows(&self, tenant: TenantId, repair: RowRepair) -> StoreResult<()> {
        self.below.repair_rows(tenant, repair).await
    }
}

fn set_head(store: &MemoryStore, id: SnapshotId) {
    let head = ReferenceUpdate {
        name: "head".into(),
        expected: Expected::Absent,
        target: Some(id),
    };
    let commit = Commit {
        references: vec![head],
        ..Commit::default()
    };
    block_on(store.commit(TENANT, commit)).unwrap();
}

#[test]
fn a_store_that_is_away_for_a_moment_is_neither_damaged_nor_changed() {
    let edits = [vec![("large".to_owned(), 1000)]];
    let (twin, ids) = build(&edits);
    set_head(&twin, ids[0]);
    let lost = |store: &MemoryStore| {
        let chunks = block_on(store.list_objects(TENANT, Kind::Chunk, None, 1)).unwrap();
        ObjectKey {
            kind: Kind::Chunk,
            hash: chunks[0],
        }
    };
    let (mut failed, mut away_at) = (0, 0);
    loop {
        let (below, _) = build(&edits);
        set_head(&below, ids[1]);
        let flaky = |below: &Arc<MemoryStore>| Flaky {
            below: below.clone(),
            calls: 0.into(),
            away_at,
        };
        let options = VerifyOptions::default();
        let store = flaky(&below);
        match block_on(verify(&store, TENANT, &options, &Progress::new())) {
            Err(Error::Store(StoreError::Unavailable(_))) => failed += 1,
            verified => assert!(verified.unwrap().is_whole(), "away at call {away_at}"),
        }
        below.damage(TENANT, lost(&below), None);
        let store = Arc::new(flaky(&below));
        let target: Arc<dyn Inspect> = store.clone();
        let sources = [RepairSource::Store(twin.as_ref())];
        let repaired = repair(&target, TENANT, &sources, &options, &Progress::new());
        match repaired {
            Err(Error::Store(StoreError::Unavailable(_))) => failed += 1,
            repaired => assert!(repaired.unwrap().after.is_whole(), "away at {away_at}"),
        }
        let head = block_on(below.reference(TENANT, "head")).unwrap();
        assert_eq!(head, Some(ids[1]), "away at {away_at}");
        if store.calls.load(Ordering::Relaxed) <= away_at {
            break;
        }
        away_at += 1;
    }
    assert!(failed > 20, "{failed} of {away_at}");
}

#[test]
fn objects_that_do_not_decode_are_reported() {
    let (store, _) = build(&[]);
    let repair = RowRepair {
        objects: vec![elevo_engine::Object {
            key: Kind::Directory.key(b"no node"),
            data: "no node".into(),
        }],
        ..RowRepair::default()
    };
    block_on(store.repair_rows(TENANT, repair)).unwrap();
    let found = check(&store);
    assert_eq!(found.damage[0].kind, DamageKind::Undecodable);
}

#[test]
fn a_cancelled_verification_ends() {
    let (store, _) = build(&[]);
    let progress = Progress::new();
    progress.cancel();
    let ended = block_on(verify(
        store.as_ref(),
        TENANT,
        &VerifyOptions::default(),
        &progress,
    ));
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    assert!(progress.entries() < 100, "not all was read");
}
