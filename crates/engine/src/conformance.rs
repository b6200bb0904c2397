//! The suite every store must pass: the promises of [`Store`], one check each
//! and more.
//!
//! ```ignore
//! elevo_engine::conformance_tests!(|| Box::new(MemoryStore::new()));
//! ```
//!
//! gives one `#[test]` per check, each on a store of its own, which must be
//! empty. The argument makes whatever dereferences to a store, so it can hold
//! on to a directory or a server as well. Checks panic with what they found.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::thread;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_objects::{Hash, Kind, MAX_CHUNK, ObjectKey, Snapshot, SnapshotId, Tree};
use futures::executor::block_on;

use crate::memory::MemoryStore;
use crate::store::{
    Commit, Expected, MAX_REFERENCE_BYTES, Object, ReferenceUpdate, Store, StoreError, StoreResult,
};

/// Expands to one test per check of [`conformance`](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_tests! {
            @each $make;
            nothing_crosses_tenants
            answers_keep_the_order_of_the_question
            what_is_put_can_be_read_at_once
            what_was_never_put_is_not_there
            putting_an_object_again_changes_nothing
            an_object_is_found_only_as_the_kind_it_was_put_as
            a_snapshot_is_not_put_as_an_object
            empty_calls_are_answered
            the_largest_chunk_and_the_empty_one_are_kept
            a_batch_may_hold_thousands_of_objects
            a_commit_shows_all_of_itself
            a_moved_reference_leaves_nothing_of_the_commit_visible
            a_refused_commit_leaves_nothing_visible
            a_commit_that_is_never_polled_does_nothing
            commits_of_many_threads_all_arrive
            a_snapshot_needs_its_root
            a_snapshot_needs_the_root_of_its_times
            a_snapshot_of_the_empty_tree_needs_no_object
            a_snapshot_is_stored_once
            a_snapshot_over_a_limit_is_refused
            a_reference_moves_only_from_where_it_is_expected
            a_commit_moves_all_of_its_references_or_none
            of_commits_that_expect_the_same_reference_one_wins
            a_removed_reference_is_gone
            names_that_no_reference_can_have_are_refused
            snapshots_are_listed_in_pages
            references_are_listed_in_pages
            references_are_listed_by_prefix
            every_sequence_of_calls_is_answered_as_by_the_memory_store
        }
    };
    (@each $make:expr; $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                $crate::conformance::run($make, async |store| {
                    $crate::conformance::$check(store).await
                });
            }
        )*
    };
}

/// Runs one check on a new store.
pub fn run<T: Deref<Target: Store + Sized>>(make: impl Fn() -> T, check: impl AsyncFn(&T::Target)) {
    let store = make();
    block_on(check(&store));
}

const ALICE: TenantId = TenantId::new([0xa1; 16]);
/// Next to the last of all tenants in the order of bytes.
const BOB: TenantId = TenantId::new([0xff; 16]);

fn object(kind: Kind, data: impl Into<Bytes>) -> Object {
    let data = data.into();
    Object {
        key: kind.key(&data),
        data,
    }
}

fn chunk(data: impl Into<Bytes>) -> Object {
    object(Kind::Chunk, data)
}

fn directory(data: &'static str) -> Object {
    object(Kind::Directory, data)
}

fn keys(objects: &[Object]) -> Vec<ObjectKey> {
    objects.iter().map(|object| object.key).collect()
}

fn snapshot(root: Option<Hash>, message: impl Into<String>) -> Snapshot {
    Snapshot {
        tree: root.map_or(Tree::EMPTY, |hash| Tree {
            root: Some(hash),
            count: 1,
            bytes: 1,
        }),
        times: None,
        parents: Vec::new(),
        author: "conformance".into(),
        message: message.into(),
        created: Timestamp::new(0, 0).expect("zero is a time"),
        labels: BTreeMap::new(),
    }
}

/// A snapshot of the empty tree: stands for any, where the tree doesn't matter.
fn bare(message: impl Into<String>) -> Snapshot {
    snapshot(None, message)
}

fn id(snapshot: &Snapshot) -> SnapshotId {
    snapshot.encode().expect("within limits").0
}

fn update(name: &str, expected: Expected, target: Option<SnapshotId>) -> ReferenceUpdate {
    ReferenceUpdate {
        name: name.into(),
        expected,
        target,
    }
}

fn of_snapshots(snapshots: Vec<Snapshot>) -> Commit {
    Commit {
        snapshots,
        ..Commit::default()
    }
}

fn of_references(references: Vec<ReferenceUpdate>) -> Commit {
    Commit {
        references,
        ..Commit::default()
    }
}

async fn get(store: &impl Store, tenant: TenantId, object: &Object) -> Option<Bytes> {
    let mut answer = store.get(tenant, &[object.key]).await.expect("get");
    let contains = store
        .contains(tenant, &[object.key])
        .await
        .expect("contains");
    assert_eq!(
        (answer.len(), contains.len()),
        (1, 1),
        "one answer for one key"
    );
    assert_eq!(answer[0].is_some(), contains[0], "get and contains agree");
    answer.remove(0)
}

async fn is_stored(store: &impl Store, tenant: TenantId, id: SnapshotId) -> bool {
    store.snapshots(tenant, &[id]).await.expect("snapshots")[0].is_some()
}

async fn put(store: &impl Store, objects: &[&Object]) {
    let objects = objects.iter().map(|object| (*object).clone()).collect();
    store.put(ALICE, objects).await.expect("put");
}

async fn commit(store: &impl Store, commit: Commit) -> Vec<SnapshotId> {
    store.commit(ALICE, commit).await.expect("commit")
}

fn assert_refused<T: std::fmt::Debug>(result: StoreResult<T>) {
    assert!(
        matches!(result, Err(StoreError::Refused(_))),
        "should be refused: {result:?}"
    );
}

fn assert_moved<T: std::fmt::Debug>(result: StoreResult<T>, is_now: Option<SnapshotId>) {
    match result {
        Err(StoreError::ReferenceMoved { current, .. }) => assert_eq!(current, is_now),
        other => panic!("the reference should have moved: {other:?}"),
    }
}

/// Promise 1: objects, snapshots and references of a tenant are its own.
pub async fn nothing_crosses_tenants(store: &impl Store) {
    let (content, root) = (chunk("secret"), directory("secret"));
    let record = snapshot(Some(root.key.hash), "secret");
    let commit = Commit {
        objects: vec![content.clone(), root.clone()],
        snapshots: vec![record.clone()],
        references: vec![update("head", Expected::Absent, Some(id(&record)))],
    };
    store.commit(ALICE, commit.clone()).await.expect("commit");
    assert_eq!(get(store, BOB, &content).await, None);
    assert_eq!(get(store, BOB, &root).await, None);
    assert!(!is_stored(store, BOB, id(&record)).await);
    assert_eq!(store.list_snapshots(BOB, None, 9).await.expect("list"), []);
    assert_eq!(store.reference(BOB, "head").await.expect("reference"), None);
    assert_eq!(
        store.list_references(BOB, "", None, 9).await.expect("list"),
        []
    );

    assert_refused(store.commit(BOB, of_snapshots(vec![record.clone()])).await);
    store
        .commit(BOB, commit)
        .await
        .expect("the reference is absent for the other tenant");
    let removal = of_references(vec![update("head", Expected::At(id(&record)), None)]);
    store.commit(BOB, removal).await.expect("commit");
    assert_eq!(
        store.reference(ALICE, "head").await.expect("reference"),
        Some(id(&record))
    );
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        [id(&record)]
    );
}

/// Promise 2, with keys asked for twice, unknown keys, and kinds mixed.
pub async fn answers_keep_the_order_of_the_question(store: &impl Store) {
    let stored: Vec<_> = (0..40_u8)
        .map(|n| {
            object(
                [Kind::Chunk, Kind::Directory, Kind::Times][usize::from(n % 3)],
                vec![n],
            )
        })
        .collect();
    store.put(ALICE, stored.clone()).await.expect("put");
    let missing = chunk("missing");
    let mut asked: Vec<_> = stored.iter().rev().cloned().collect();
    asked.insert(3, missing.clone());
    asked.extend(stored.iter().take(5).cloned());
    asked.extend([missing.clone(), missing.clone()]);

    let found = store.get(ALICE, &keys(&asked)).await.expect("get");
    let contains = store
        .contains(ALICE, &keys(&asked))
        .await
        .expect("contains");
    assert_eq!((found.len(), contains.len()), (asked.len(), asked.len()));
    for ((object, data), contained) in asked.iter().zip(found).zip(contains) {
        let expected = (object.key != missing.key).then(|| object.data.clone());
        assert_eq!(
            (contained, data),
            (expected.is_some(), expected),
            "{:?}",
            object.key
        );
    }

    let snapshots: Vec<_> = ["a", "b", "c"].map(bare).into();
    let ids = commit(store, of_snapshots(snapshots.clone())).await;
    assert_eq!(
        ids,
        snapshots.iter().map(id).collect::<Vec<_>>(),
        "ids in the commit's order"
    );
    let unknown = id(&bare("unknown"));
    let asked = [ids[2], unknown, ids[0], ids[2]];
    let found = store.snapshots(ALICE, &asked).await.expect("snapshots");
    let [a, _, c] = &snapshots[..] else {
        unreachable!()
    };
    assert_eq!(
        found,
        [Some(c.clone()), None, Some(a.clone()), Some(c.clone())]
    );
}

/// Promise 4, its first half.
pub async fn what_is_put_can_be_read_at_once(store: &impl Store) {
    for kind in [Kind::Chunk, Kind::Directory, Kind::Times, Kind::ChunkList] {
        let object = object(kind, format!("{kind:?}"));
        put(store, &[&object]).await;
        assert_eq!(get(store, ALICE, &object).await, Some(object.data));
    }
}

/// An empty store has nothing.
pub async fn what_was_never_put_is_not_there(store: &impl Store) {
    assert_eq!(get(store, ALICE, &chunk("x")).await, None);
    assert!(!is_stored(store, ALICE, id(&bare("x"))).await);
    assert_eq!(store.reference(ALICE, "x").await.expect("reference"), None);
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        []
    );
    assert_eq!(
        store
            .list_references(ALICE, "", None, 9)
            .await
            .expect("list"),
        []
    );
}

/// Promise 3, by `put`, by `commit`, and twice in one call.
pub async fn putting_an_object_again_changes_nothing(store: &impl Store) {
    let object = chunk("once");
    put(store, &[&object, &object]).await;
    put(store, &[&object]).await;
    let again = Commit {
        objects: vec![object.clone(), object.clone()],
        ..Commit::default()
    };
    assert_eq!(commit(store, again).await, []);
    assert_eq!(get(store, ALICE, &object).await, Some(object.data));
}

/// The kind is part of the key, whatever the hash.
pub async fn an_object_is_found_only_as_the_kind_it_was_put_as(store: &impl Store) {
    let kinds = [
        Kind::Chunk,
        Kind::Directory,
        Kind::Times,
        Kind::ChunkList,
        Kind::Snapshot,
    ];
    for kind in &kinds[..4] {
        let object = object(*kind, "bytes");
        put(store, &[&object]).await;
        for other in kinds.iter().filter(|other| *other != kind) {
            let key = ObjectKey {
                kind: *other,
                hash: object.key.hash,
            };
            let asked = Object {
                key,
                data: Bytes::new(),
            };
            assert_eq!(
                get(store, ALICE, &asked).await,
                None,
                "{kind:?} as {other:?}"
            );
        }
    }
    let record = bare("x");
    let hash = commit(store, of_snapshots(vec![record])).await[0].0;
    let asked = Object {
        key: ObjectKey {
            kind: Kind::Snapshot,
            hash,
        },
        data: Bytes::new(),
    };
    assert_eq!(
        get(store, ALICE, &asked).await,
        None,
        "snapshots are not objects"
    );
}

/// Snapshots come with commits, which check their roots.
pub async fn a_snapshot_is_not_put_as_an_object(store: &impl Store) {
    let (_, data) = bare("x").encode().expect("within limits");
    let objects = vec![object(Kind::Snapshot, data)];
    assert_refused(store.put(ALICE, objects.clone()).await);
    assert_refused(
        store
            .commit(
                ALICE,
                Commit {
                    objects,
                    ..Commit::default()
                },
            )
            .await,
    );
    assert!(!is_stored(store, ALICE, id(&bare("x"))).await);
}

/// Calls about nothing succeed.
pub async fn empty_calls_are_answered(store: &impl Store) {
    assert_eq!(
        store.get(ALICE, &[]).await.expect("get"),
        Vec::<Option<Bytes>>::new()
    );
    assert_eq!(
        store.contains(ALICE, &[]).await.expect("contains"),
        Vec::<bool>::new()
    );
    assert_eq!(
        store.snapshots(ALICE, &[]).await.expect("snapshots"),
        Vec::new()
    );
    store.put(ALICE, Vec::new()).await.expect("put");
    assert_eq!(commit(store, Commit::default()).await, []);
    commit(store, of_snapshots(vec![bare("x")])).await;
    assert_eq!(
        store.list_snapshots(ALICE, None, 0).await.expect("list"),
        []
    );
    assert_eq!(
        store
            .list_references(ALICE, "", None, 0)
            .await
            .expect("list"),
        []
    );
}

/// Sizes at both ends, and bytes that do and do not compress.
pub async fn the_largest_chunk_and_the_empty_one_are_kept(store: &impl Store) {
    let mut random = Random(1);
    let noise: Vec<u8> = (0..MAX_CHUNK).map(|_| random.below(256) as u8).collect();
    let mut objects = vec![chunk(noise.clone()), chunk(vec![0; MAX_CHUNK]), chunk("")];
    for length in [1, 1023, 1024, 4095, 4096, 4097, 65_536] {
        objects.push(chunk(noise[..length].to_vec()));
        objects.push(chunk(vec![b'a'; length]));
    }
    let (first, second) = objects.split_at(objects.len() / 2);
    store.put(ALICE, first.to_vec()).await.expect("put");
    commit(
        store,
        Commit {
            objects: second.to_vec(),
            ..Commit::default()
        },
    )
    .await;
    let found = store.get(ALICE, &keys(&objects)).await.expect("get");
    for (object, data) in objects.iter().zip(found) {
        assert!(
            data.as_ref() == Some(&object.data),
            "{} bytes come back",
            object.data.len()
        );
        assert!(get(store, ALICE, object).await.as_ref() == Some(&object.data));
    }
}

/// Promise 8: one call, however many keys.
pub async fn a_batch_may_hold_thousands_of_objects(store: &impl Store) {
    let made = |n: u32| {
        object(
            [Kind::Chunk, Kind::Directory][(n % 2) as usize],
            format!("{n}"),
        )
    };
    let objects: Vec<_> = (0..4000).map(made).collect();
    store
        .put(ALICE, objects[..2000].to_vec())
        .await
        .expect("put");
    commit(
        store,
        Commit {
            objects: objects[1000..3000].to_vec(),
            ..Commit::default()
        },
    )
    .await;
    let found = store.get(ALICE, &keys(&objects)).await.expect("get");
    for (place, (object, data)) in objects.iter().zip(found).enumerate() {
        assert_eq!(data, (place < 3000).then(|| object.data.clone()));
    }
}

/// Promise 5: objects, snapshots and references arrive together.
pub async fn a_commit_shows_all_of_itself(store: &impl Store) {
    let (content, root) = (chunk("content"), directory("root"));
    let mut record = snapshot(Some(root.key.hash), "first");
    record.labels.insert("colour".into(), "green".into());
    record.parents.push(id(&bare("not stored here")));
    let ids = commit(
        store,
        Commit {
            objects: vec![content.clone(), root.clone()],
            snapshots: vec![record.clone()],
            references: vec![update("head", Expected::Absent, Some(id(&record)))],
        },
    )
    .await;
    assert_eq!(ids, [id(&record)]);
    assert_eq!(get(store, ALICE, &content).await, Some(content.data));
    assert_eq!(get(store, ALICE, &root).await, Some(root.data));
    assert_eq!(
        store.reference(ALICE, "head").await.expect("reference"),
        Some(ids[0])
    );
    assert_eq!(
        store.snapshots(ALICE, &ids).await.expect("snapshots"),
        [Some(record)]
    );
}

/// Promise 5: no half of a commit whose reference was elsewhere.
pub async fn a_moved_reference_leaves_nothing_of_the_commit_visible(store: &impl Store) {
    let (old, new) = (bare("old"), bare("new"));
    let references = vec![update("head", Expected::Any, Some(id(&old)))];
    commit(
        store,
        Commit {
            snapshots: vec![old.clone()],
            references,
            ..Commit::default()
        },
    )
    .await;
    let late = Commit {
        objects: vec![chunk("late")],
        snapshots: vec![new.clone()],
        references: vec![
            update("other", Expected::Any, Some(id(&new))),
            update("head", Expected::Absent, Some(id(&new))),
        ],
    };
    assert_moved(store.commit(ALICE, late).await, Some(id(&old)));
    assert!(!is_stored(store, ALICE, id(&new)).await);
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        [id(&old)]
    );
    let references = store
        .list_references(ALICE, "", None, 9)
        .await
        .expect("list");
    assert_eq!(references, [("head".into(), id(&old))]);
}

/// Promise 5: no half of a commit of which one part is refused.
pub async fn a_refused_commit_leaves_nothing_visible(store: &impl Store) {
    let good = bare("good");
    let references = || vec![update("head", Expected::Any, Some(id(&good)))];
    let no_root = snapshot(Some(directory("nowhere").key.hash), "bad");
    let snapshots = vec![good.clone(), no_root];
    let refused = Commit {
        snapshots,
        references: references(),
        ..Commit::default()
    };
    assert_refused(store.commit(ALICE, refused).await);
    let mut refused = Commit {
        snapshots: vec![good.clone()],
        references: references(),
        ..Commit::default()
    };
    refused.references.push(update("", Expected::Any, None));
    assert_refused(store.commit(ALICE, refused).await);
    assert!(!is_stored(store, ALICE, id(&good)).await);
    assert_eq!(
        store
            .list_references(ALICE, "", None, 9)
            .await
            .expect("list"),
        []
    );
}

/// Dropping a future leaves the store whole.
pub async fn a_commit_that_is_never_polled_does_nothing(store: &impl Store) {
    let record = bare("dropped");
    drop(store.commit(ALICE, of_snapshots(vec![record.clone()])));
    drop(store.put(ALICE, vec![chunk("dropped")]));
    assert!(!is_stored(store, ALICE, id(&record)).await);
    assert_eq!(get(store, ALICE, &chunk("dropped")).await, None);
}

/// Commits run side by side, with objects put by others among theirs.
pub async fn commits_of_many_threads_all_arrive(store: &impl Store) {
    const THREADS: usize = 8;
    const COMMITS: usize = 12;
    let record = |thread: usize, n: usize| {
        let root = object(Kind::Directory, format!("root {n}"));
        (
            root.clone(),
            snapshot(Some(root.key.hash), format!("{thread}.{n}")),
        )
    };
    thread::scope(|scope| {
        for worker in 0..THREADS {
            scope.spawn(move || {
                for n in 0..COMMITS {
                    let (root, snapshot) = record(worker, n);
                    let name = format!("branch {worker}");
                    let previous = n.checked_sub(1).map(|n| id(&record(worker, n).1));
                    let expected = previous.map_or(Expected::Absent, Expected::At);
                    let references = vec![update(&name, expected, Some(id(&snapshot)))];
                    let commit = Commit {
                        objects: vec![root],
                        snapshots: vec![snapshot],
                        references,
                    };
                    block_on(store.commit(ALICE, commit)).expect("commit");
                }
            });
        }
    });
    let found = store
        .list_snapshots(ALICE, None, usize::MAX)
        .await
        .expect("list");
    assert_eq!(found.len(), THREADS * COMMITS);
    for worker in 0..THREADS {
        let (root, last) = record(worker, COMMITS - 1);
        assert!(is_stored(store, ALICE, id(&last)).await);
        assert_eq!(get(store, ALICE, &root).await, Some(root.data));
        let reference = store.reference(ALICE, &format!("branch {worker}")).await;
        assert_eq!(reference.expect("reference"), Some(id(&last)));
    }
}

/// Promise 6: stored before, in the commit, or refused.
pub async fn a_snapshot_needs_its_root(store: &impl Store) {
    let root = directory("root");
    let record = snapshot(Some(root.key.hash), "x");
    assert_refused(
        store
            .commit(ALICE, of_snapshots(vec![record.clone()]))
            .await,
    );

    // Neither the root of another tenant nor an object of another kind counts.
    store.put(BOB, vec![root.clone()]).await.expect("put");
    let other_kind = object(Kind::Times, "root");
    let mut wrong = of_snapshots(vec![snapshot(Some(other_kind.key.hash), "x")]);
    wrong.objects.push(other_kind);
    assert_refused(store.commit(ALICE, wrong).await);
    assert_refused(
        store
            .commit(ALICE, of_snapshots(vec![record.clone()]))
            .await,
    );
    assert!(!is_stored(store, ALICE, id(&record)).await);

    put(store, &[&root]).await;
    commit(store, of_snapshots(vec![record])).await;
    let other = directory("other root");
    let mut with_root = of_snapshots(vec![snapshot(Some(other.key.hash), "x")]);
    with_root.objects.push(other);
    commit(store, with_root).await;
}

/// Promise 6, for the tree beside the tree.
pub async fn a_snapshot_needs_the_root_of_its_times(store: &impl Store) {
    let times = object(Kind::Times, "times");
    let record = Snapshot {
        times: Some(times.key.hash),
        ..bare("x")
    };
    assert_refused(
        store
            .commit(ALICE, of_snapshots(vec![record.clone()]))
            .await,
    );
    let with_times = Commit {
        objects: vec![times.clone()],
        snapshots: vec![record.clone()],
        references: Vec::new(),
    };
    commit(store, with_times).await;
    commit(
        store,
        of_snapshots(vec![Snapshot {
            message: "y".into(),
            ..record
        }]),
    )
    .await;
}

/// There is no node to ask for.
pub async fn a_snapshot_of_the_empty_tree_needs_no_object(store: &impl Store) {
    let record = bare("empty");
    let ids = commit(store, of_snapshots(vec![record.clone()])).await;
    assert_eq!(
        store.snapshots(ALICE, &ids).await.expect("snapshots"),
        [Some(record)]
    );
}

/// Content decides: the same record again is the same snapshot.
pub async fn a_snapshot_is_stored_once(store: &impl Store) {
    let record = bare("same");
    let first = commit(store, of_snapshots(vec![record.clone(), record.clone()])).await;
    let second = commit(store, of_snapshots(vec![record.clone()])).await;
    assert_eq!((first[0], first[1]), (second[0], second[0]));
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        second
    );
}

/// What cannot be encoded is refused, not cut.
pub async fn a_snapshot_over_a_limit_is_refused(store: &impl Store) {
    let record = bare("m".repeat(1 << 20));
    assert_refused(store.commit(ALICE, of_snapshots(vec![record])).await);
    assert_eq!(
        store.list_snapshots(ALICE, None, 9).await.expect("list"),
        []
    );
}

/// Promise 7, each expectation against each state.
pub async fn a_reference_moves_only_from_where_it_is_expected(store: &impl Store) {
    let (a, b) = (bare("a"), bare("b"));
    commit(store, of_snapshots(vec![a.clone(), b.clone()])).await;
    let (a, b) = (id(&a), id(&b));
    let step = async |expected, target| {
        store
            .commit(ALICE, of_references(vec![update("head", expected, target)]))
            .await
    };
    assert_moved(step(Expected::At(a), Some(b)).await, None);
    step(Expected::Absent, Some(a))
        .await
        .expect("it was absent");
    assert_moved(step(Expected::Absent, Some(b)).await, Some(a));
    assert_moved(step(Expected::At(b), Some(b)).await, Some(a));
    step(Expected::At(a), Some(b)).await.expect("it was there");
    step(Expected::Any, Some(a)).await.expect("anything goes");
    assert_eq!(
        store.reference(ALICE, "head").await.expect("reference"),
        Some(a)
    );
    step(Expected::At(a), Some(a))
        .await
        .expect("staying is a move");
}

/// Promise 5, with many references in one commit.
pub async fn a_commit_moves_all_of_its_references_or_none(store: &impl Store) {
    let record = bare("a");
    let to = Some(id(&record));
    commit(store, of_snapshots(vec![record])).await;
    let names = ["a", "b", "c"];
    let both = names
        .map(|name| update(name, Expected::Absent, to))
        .to_vec();
    commit(store, of_references(both.clone())).await;
    assert_moved(store.commit(ALICE, of_references(both)).await, to);
    let mixed = vec![
        update("a", Expected::At(id(&bare("a"))), None),
        update("d", Expected::Absent, to),
        update("c", Expected::Absent, to),
    ];
    assert_moved(store.commit(ALICE, of_references(mixed)).await, to);
    let found = store
        .list_references(ALICE, "", None, 9)
        .await
        .expect("list");
    assert_eq!(
        found
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        names
    );
}

/// Promise 7, by threads that race.
pub async fn of_commits_that_expect_the_same_reference_one_wins(store: &impl Store) {
    const THREADS: usize = 6;
    let record = |round: usize, thread: usize| bare(format!("{round} by {thread}"));
    let mut expected = Expected::Absent;
    for round in 0..10 {
        let outcomes: Vec<_> = thread::scope(|scope| {
            let race = |thread| {
                let record = record(round, thread);
                let references = vec![update("head", expected, Some(id(&record)))];
                let commit = Commit {
                    snapshots: vec![record],
                    references,
                    ..Commit::default()
                };
                block_on(store.commit(ALICE, commit))
            };
            let racers: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || race(thread)))
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().expect("no panic"))
                .collect()
        });
        let winner = store
            .reference(ALICE, "head")
            .await
            .expect("reference")
            .expect("one won");
        for (thread, outcome) in outcomes.into_iter().enumerate() {
            let id = id(&record(round, thread));
            if id == winner {
                assert_eq!(outcome.expect("the winner was told so"), [id]);
            } else {
                assert_moved(outcome, Some(winner));
            }
            assert_eq!(is_stored(store, ALICE, id).await, id == winner);
        }
        expected = Expected::At(winner);
    }
}

/// `None` as a target removes; the name is free again.
pub async fn a_removed_reference_is_gone(store: &impl Store) {
    let record = bare("a");
    let to = Some(id(&record));
    commit(store, of_snapshots(vec![record])).await;
    commit(
        store,
        of_references(vec![update("tag", Expected::Absent, to)]),
    )
    .await;
    commit(
        store,
        of_references(vec![update("tag", Expected::Any, None)]),
    )
    .await;
    assert_eq!(
        store.reference(ALICE, "tag").await.expect("reference"),
        None
    );
    assert_eq!(
        store
            .list_references(ALICE, "", None, 9)
            .await
            .expect("list"),
        []
    );
    commit(
        store,
        of_references(vec![update("tag", Expected::Any, None)]),
    )
    .await;
    commit(
        store,
        of_references(vec![update("tag", Expected::Absent, to)]),
    )
    .await;
    assert_eq!(store.reference(ALICE, "tag").await.expect("reference"), to);
}

/// Empty, too long, or with control characters; all others are taken.
pub async fn names_that_no_reference_can_have_are_refused(store: &impl Store) {
    let record = bare("a");
    let to = Some(id(&record));
    commit(store, of_snapshots(vec![record])).await;
    let (longest, too_long) = (
        "n".repeat(MAX_REFERENCE_BYTES),
        "n".repeat(MAX_REFERENCE_BYTES + 1),
    );
    for bad in ["", "a\nb", "\0", "\u{7f}", &too_long] {
        let update = update(bad, Expected::Any, to);
        assert_refused(store.commit(ALICE, of_references(vec![update])).await);
    }
    for good in [" ", "/", "a/b c", "größe", "\u{10ffff}", &longest] {
        commit(
            store,
            of_references(vec![update(good, Expected::Absent, to)]),
        )
        .await;
        assert_eq!(
            store.reference(ALICE, good).await.expect("reference"),
            to,
            "{good}"
        );
    }
}

/// In the order of their bytes, each once, wherever a page ends.
pub async fn snapshots_are_listed_in_pages(store: &impl Store) {
    let snapshots: Vec<_> = (0..23).map(|n| bare(format!("{n}"))).collect();
    let mut expected = commit(store, of_snapshots(snapshots)).await;
    expected.sort();
    for limit in [1, 4, 23, 100] {
        let mut seen = Vec::new();
        loop {
            let page = store
                .list_snapshots(ALICE, seen.last().copied(), limit)
                .await
                .expect("list");
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
    // A page may start after an id that is not stored.
    let between = SnapshotId(Hash::from_bytes([0x80; 32]));
    let rest = store
        .list_snapshots(ALICE, Some(between), 100)
        .await
        .expect("list");
    assert_eq!(
        rest,
        expected
            .into_iter()
            .filter(|id| *id > between)
            .collect::<Vec<_>>()
    );
}

/// In the order of their names, each once, wherever a page ends.
pub async fn references_are_listed_in_pages(store: &impl Store) {
    let record = bare("a");
    let to = id(&record);
    commit(store, of_snapshots(vec![record])).await;
    let names: Vec<_> = (0..23).map(|n| format!("tag/{}", n * 7 % 23)).collect();
    let updates = names
        .iter()
        .map(|name| update(name, Expected::Absent, Some(to)))
        .collect();
    commit(store, of_references(updates)).await;
    let mut expected = names;
    expected.sort();
    for limit in [1, 4, 23, 100] {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let after = seen.last().map(String::as_str);
            let page = store
                .list_references(ALICE, "tag/", after, limit)
                .await
                .expect("list");
            assert!(page.len() <= limit);
            assert!(page.iter().all(|(_, id)| *id == to));
            if page.is_empty() {
                break;
            }
            seen.extend(page.into_iter().map(|(name, _)| name));
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
}

/// A prefix is a prefix of the bytes, wherever `after` stands.
pub async fn references_are_listed_by_prefix(store: &impl Store) {
    let record = bare("a");
    let to = id(&record);
    commit(store, of_snapshots(vec![record])).await;
    let mut names = [
        "a",
        "a/",
        "a/b",
        "a/c",
        "ab",
        "b",
        "tag/1",
        "z\u{10ffff}",
        "z\u{10ffff}!",
    ];
    let updates = names
        .iter()
        .map(|name| update(name, Expected::Absent, Some(to)))
        .collect();
    commit(store, of_references(updates)).await;
    names.sort();
    for prefix in [
        "",
        "a",
        "a/",
        "a/b",
        "ab",
        "nothing",
        "tag",
        "z",
        "z\u{10ffff}",
    ] {
        for after in [
            None,
            Some(""),
            Some("a"),
            Some("a/b"),
            Some("a/bb"),
            Some("b"),
            Some("zz"),
        ] {
            let found = store
                .list_references(ALICE, prefix, after, 100)
                .await
                .expect("list");
            let found: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            let expected: Vec<_> = names
                .into_iter()
                .filter(|name| name.starts_with(prefix) && after.is_none_or(|after| *name > after))
                .collect();
            assert_eq!(found, expected, "prefix {prefix:?} after {after:?}");
        }
    }
}

/// Random calls of two tenants, each compared with a [`MemoryStore`].
pub async fn every_sequence_of_calls_is_answered_as_by_the_memory_store(store: &impl Store) {
    let model = MemoryStore::new();
    let mut random = Random(2);
    for step in 0..400 {
        let tenant = [ALICE, BOB][random.below(2)];
        if random.below(4) == 0 {
            let objects = random.objects();
            let (ours, theirs) = (
                store.put(tenant, objects.clone()),
                model.put(tenant, objects),
            );
            assert_same(ours.await, theirs.await, step);
        } else {
            let commit = random.commit();
            let (ours, theirs) = (
                store.commit(tenant, commit.clone()),
                model.commit(tenant, commit),
            );
            assert_same(ours.await, theirs.await, step);
        }
        assert_same_state(store, &model, tenant, step).await;
    }
}

async fn assert_same_state(store: &impl Store, model: &MemoryStore, tenant: TenantId, step: usize) {
    let ids = model.list_snapshots(tenant, None, 100).await;
    let asked = ids.as_ref().map_or(&[][..], |ids| ids);
    assert_same(
        store.snapshots(tenant, asked).await,
        model.snapshots(tenant, asked).await,
        step,
    );
    assert_same(store.list_snapshots(tenant, None, 100).await, ids, step);
    let references = store.list_references(tenant, "", None, 100).await;
    assert_same(
        references,
        model.list_references(tenant, "", None, 100).await,
        step,
    );
    // Objects of a commit that failed may be there or not; those of the model must.
    let keys = keys(&(0..Random::OBJECTS).map(Random::object).collect::<Vec<_>>());
    let ours = store.get(tenant, &keys).await.expect("get");
    let theirs = model.get(tenant, &keys).await.expect("get");
    for (ours, theirs) in ours.into_iter().zip(theirs) {
        assert!(
            theirs.is_none() || ours == theirs,
            "step {step}: {ours:?} is not {theirs:?}"
        );
    }
}

fn assert_same<T: PartialEq + std::fmt::Debug>(
    ours: StoreResult<T>,
    theirs: StoreResult<T>,
    step: usize,
) {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "step {step}"),
        (Err(StoreError::Refused(_)), Err(StoreError::Refused(_))) => {}
        (
            Err(StoreError::ReferenceMoved { current: ours, .. }),
            Err(StoreError::ReferenceMoved {
                current: theirs, ..
            }),
        ) => assert_eq!(ours, theirs, "step {step}"),
        (ours, theirs) => panic!("step {step}: {ours:?} is not {theirs:?}"),
    }
}

/// Choices that are the same in every run (xorshift64).
struct Random(u64);

impl Random {
    const OBJECTS: usize = 12;

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as usize % bound
    }

    fn object(n: usize) -> Object {
        object(
            [Kind::Chunk, Kind::Directory][n % 2],
            format!("object {n}").repeat(n * n),
        )
    }

    fn objects(&mut self) -> Vec<Object> {
        (0..self.below(4))
            .map(|_| Self::object(self.below(Self::OBJECTS)))
            .collect()
    }

    fn snapshot(&mut self) -> Snapshot {
        let root = match Self::object(self.below(Self::OBJECTS)).key {
            ObjectKey {
                kind: Kind::Directory,
                hash,
            } => Some(hash),
            _ => None,
        };
        snapshot(root, format!("{}", self.below(3)))
    }

    fn commit(&mut self) -> Commit {
        let snapshots: Vec<_> = (0..self.below(3)).map(|_| self.snapshot()).collect();
        let mut names = vec!["a", "b", "c"];
        let references = (0..self.below(3))
            .map(|_| {
                let name = names.swap_remove(self.below(names.len()));
                let known = id(&self.snapshot());
                let expected = [Expected::Any, Expected::Absent, Expected::At(known)];
                let target = snapshots.first().map(id);
                update(name, expected[self.below(3)], target)
            })
            .collect();
        Commit {
            objects: self.objects(),
            snapshots,
            references,
        }
    }
}
