//! Garbage collection.

use std::thread;
use std::time::Duration;

use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId};

use super::model::Random;
use super::{
    ALICE, BOB, assert_refused, bare, chunk, commit, directory, get, id, is_stored, of_snapshots,
    of_writers, put, put_ahead, put_for, snapshot,
};
use crate::store::{Collection, Commit, GcScope, Object, Store, StoreError};

/// Looks, and the pause between two, after which every process of a store knows
/// of the calls of another one: a minute.
const LOOKS: u32 = 12_000;
const PAUSE: Duration = Duration::from_millis(5);

/// Begins a collection. The end of an earlier one may not be known yet.
async fn begin(store: &impl Store, scope: GcScope) -> Box<dyn Collection + '_> {
    for _ in 1..LOOKS {
        match store.collection(ALICE, scope).await {
            Err(StoreError::Refused(_)) => thread::sleep(PAUSE),
            begun => return begun.expect("a collection"),
        }
    }
    store.collection(ALICE, scope).await.expect("a collection")
}

fn key(id: SnapshotId) -> ObjectKey {
    ObjectKey {
        kind: Kind::Snapshot,
        hash: id.0,
    }
}

/// Ends marking and deletes the rest.
async fn end(mut collection: Box<dyn Collection + '_>) -> u64 {
    assert!(close(&*collection).await, "nothing has arrived");
    let snapshots = collection.unmarked_snapshots(None, 1000).await;
    let keys: Vec<_> = snapshots.expect("snapshots").into_iter().map(key).collect();
    collection.remove(&keys).await.expect("remove");
    let mut removed = 0;
    while let Some(swept) = collection.sweep(false).await.expect("sweep") {
        removed += swept.removed;
    }
    collection.finish().await.expect("finish");
    removed
}

async fn close(collection: &dyn Collection) -> bool {
    collection.close().await.expect("close")
}

/// Waits until these snapshots have arrived. Checks that no others arrive with
/// them.
async fn assert_arrivals(collection: &dyn Collection, expected: &[SnapshotId]) {
    let mut found = collection.arrivals().await.expect("arrivals");
    for _ in 0..LOOKS {
        if found.len() >= expected.len() {
            break;
        }
        thread::sleep(PAUSE);
        found.extend(collection.arrivals().await.expect("arrivals"));
    }
    assert_eq!(found, expected);
}

/// Waits until there are this many older writers.
async fn assert_older_writers(collection: &dyn Collection, expected: usize) {
    let count = async || collection.older_writers().await.expect("older writers");
    for _ in 1..LOOKS {
        if count().await == expected {
            return;
        }
        thread::sleep(PAUSE);
    }
    assert_eq!(count().await, expected);
}

async fn mark(collection: &dyn Collection, object: &Object) -> bool {
    collection.mark(&[object.key]).await.expect("mark")[0]
}

/// Marked objects stay, all others are deleted.
pub async fn a_full_collection_deletes_unmarked_objects(store: &impl Store) {
    let (kept, gone) = (directory("kept"), directory("gone"));
    let (chunk_kept, chunk_gone) = (chunk("kept"), chunk("gone"));
    put(store, &[&kept, &gone, &chunk_kept, &chunk_gone]).await;
    let (named, unnamed) = (bare("named"), bare("unnamed"));
    commit(store, of_snapshots(vec![named.clone(), unnamed.clone()])).await;
    let others = chunk("gone");
    put_for(store, BOB, vec![others.clone()]).await;

    let collection = begin(store, GcScope::Full).await;
    assert_eq!(collection.scope(), GcScope::Full);
    assert!(mark(&*collection, &kept).await);
    assert!(!mark(&*collection, &kept).await, "only once");
    mark(&*collection, &chunk_kept).await;
    collection.mark(&[key(id(&named))]).await.expect("mark");
    assert_eq!(end(collection).await, 2);

    for (object, stays) in [
        (&kept, true),
        (&chunk_kept, true),
        (&gone, false),
        (&chunk_gone, false),
    ] {
        let found = get(store, ALICE, object).await;
        assert_eq!(found.is_some(), stays, "{:?}", object.data);
    }
    assert!(get(store, BOB, &others).await.is_some(), "another tenant's");
    assert!(is_stored(store, ALICE, id(&named)).await);
    assert!(!is_stored(store, ALICE, id(&unnamed)).await);
    put(store, &[&gone]).await;
    let found = get(store, ALICE, &gone).await;
    assert_eq!(found, Some(gone.data.clone()), "it can be put again");
}

/// The number counts only the tenant's objects, and returns to 0 when all of
/// them are garbage.
pub async fn stored_bytes_grow_with_objects_and_fall_with_garbage(store: &impl Store) {
    let stored = async |tenant| store.stored_bytes(tenant).await.expect("stored bytes");
    assert_eq!(stored(ALICE).await, 0);
    // Incompressible data.
    let chunks: Vec<_> = (0..32_u64).map(|n| chunk(noise(n))).collect();
    let size: u64 = chunks.iter().map(|chunk| chunk.data.len() as u64).sum();
    put(store, &chunks.iter().collect::<Vec<_>>()).await;
    commit(store, of_snapshots(vec![bare("named")])).await;
    let full = stored(ALICE).await;
    let nearly = |bytes: u64| bytes * 9 / 10..bytes * 11 / 10;
    assert!(nearly(size).contains(&full), "{full} of {size}");
    put(store, &chunks.iter().collect::<Vec<_>>()).await;
    assert_eq!(stored(ALICE).await, full, "they were there");
    assert_eq!(stored(BOB).await, 0);
    let collection = begin(store, GcScope::Full).await;
    for chunk in &chunks[..16] {
        mark(&*collection, chunk).await;
    }
    assert_eq!(end(collection).await, 16);
    let half = stored(ALICE).await;
    assert!(nearly(size / 2).contains(&half), "{half} of {size}");
    assert_eq!(end(begin(store, GcScope::Full).await).await, 16);
    assert_eq!(stored(ALICE).await, 0);
}

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut random = Random(seed + 1);
    (0..4096).map(|_| random.below(256) as u8).collect()
}

/// Objects that are put, committed or found during a collection stay.
pub async fn objects_written_or_found_during_a_collection_stay(store: &impl Store) {
    let (again, found, committed) = (chunk("again"), chunk("found"), directory("committed"));
    let (new, lost) = (chunk("new"), chunk("lost"));
    put(store, &[&again, &found, &lost]).await;
    let collection = begin(store, GcScope::Full).await;
    put(store, &[&again, &new]).await;
    let there = store.contains(ALICE, &[found.key]).await.expect("contains");
    assert_eq!(there, [true]);
    let made = snapshot(Some(committed.key.hash), "committed");
    let objects = vec![committed.clone()];
    let snapshots = vec![made.clone()];
    let of = Commit {
        objects,
        snapshots,
        ..Commit::default()
    };
    commit(store, of).await;
    let held = store.hold(ALICE, &[id(&made)]).await.expect("hold");
    assert!(held.is_some(), "a new snapshot can be held");
    assert_eq!(end(collection).await, 1);
    for object in [&again, &found, &new, &committed] {
        assert!(get(store, ALICE, object).await.is_some());
    }
    assert!(get(store, ALICE, &lost).await.is_none());
    assert!(is_stored(store, ALICE, id(&made)).await);
}

/// Objects that are put while the others are being deleted stay too.
pub async fn objects_put_during_the_sweep_stay(store: &impl Store) {
    let objects: Vec<_> = (0..5000).map(|n| chunk(format!("{n}"))).collect();
    put(store, &objects.iter().collect::<Vec<_>>()).await;
    let mut collection = begin(store, GcScope::Full).await;
    assert!(close(&*collection).await);
    for some in objects.chunks(100) {
        put(store, &[&some[0]]).await;
        collection.sweep(false).await.expect("sweep");
        put(store, &[&some[1]]).await;
    }
    while collection.sweep(false).await.expect("sweep").is_some() {}
    collection.finish().await.expect("finish");
    for (place, object) in objects.iter().enumerate() {
        let stays = place % 100 < 2;
        assert_eq!(get(store, ALICE, object).await.is_some(), stays, "{place}");
    }
}

/// A garbage collection learns of snapshots that are held. Once it has closed, a
/// snapshot that it will delete can no longer be held.
pub async fn a_held_snapshot_arrives_at_collections(store: &impl Store) {
    let (held, later, gone) = (bare("held"), bare("later"), bare("gone"));
    let ids = [id(&held), id(&later), id(&gone)];
    commit(store, of_snapshots(vec![held, later, gone])).await;
    let hold = async |id| store.hold(ALICE, &[id]).await.expect("hold");
    let guard = hold(ids[0]).await.expect("it is there").guard;
    assert!(hold(id(&bare("never"))).await.is_none());
    let collection = begin(store, GcScope::Full).await;
    assert_arrivals(&*collection, &[ids[0]]).await;
    let second = hold(ids[1]).await.expect("it is there").guard;
    assert!(!close(&*collection).await, "a hold arrived");
    assert_arrivals(&*collection, &[ids[1]]).await;
    let keys = [key(ids[0]), key(ids[1])];
    collection.mark(&keys).await.expect("mark");
    assert!(close(&*collection).await);
    assert!(hold(ids[2]).await.is_none(), "too late");
    assert!(hold(ids[1]).await.is_some(), "it is marked");
    end(collection).await;
    assert!(is_stored(store, ALICE, ids[0]).await);
    assert!(!is_stored(store, ALICE, ids[2]).await);
    drop((guard, second));
    let collection = begin(store, GcScope::Full).await;
    assert_arrivals(&*collection, &[]).await;
    drop(collection);
}

/// A hold returns the records of its snapshots, in the order of the ids.
pub async fn a_hold_returns_the_records_of_its_snapshots(store: &impl Store) {
    let (first, second) = (bare("first"), bare("second"));
    commit(store, of_snapshots(vec![first.clone(), second.clone()])).await;
    let ids = [id(&second), id(&first), id(&second)];
    let held = store.hold(ALICE, &ids).await.expect("hold");
    let held = held.expect("they are there");
    assert_eq!(held.snapshots, [second.clone(), first.clone(), second]);
    drop(held);
    let one_is_missing = [id(&first), id(&bare("never"))];
    let held = store.hold(ALICE, &one_is_missing).await.expect("hold");
    assert!(held.is_none(), "one is not stored");
    let held = store.hold(BOB, &[id(&first)]).await.expect("hold");
    assert!(held.is_none(), "another tenant's");
    let held = store.hold(ALICE, &[]).await.expect("hold");
    assert_eq!(held.expect("nothing is missing").snapshots, []);
}

/// A collection waits for earlier writers, not for later ones.
pub async fn a_collection_counts_older_writers(store: &impl Store) {
    let before = store.writing(ALICE).await.expect("a writer");
    let collection = begin(store, GcScope::Full).await;
    assert_older_writers(&*collection, 1).await;
    let after = store.writing(ALICE).await.expect("a writer");
    assert_older_writers(&*collection, 1).await;
    drop(before);
    assert_older_writers(&*collection, 0).await;
    drop(after);
    drop(collection);
}

/// An object that was put before the collection began has no mark and is not
/// kept, so the collection must walk the snapshot that needs it.
pub async fn a_commit_of_an_older_writer_arrives_at_the_collection(store: &impl Store) {
    let root = directory("put before");
    let before = put_ahead(store, ALICE, vec![root.clone()]).await;
    let collection = begin(store, GcScope::Full).await;
    let made = snapshot(Some(root.key.hash), "committed by an older writer");
    let of = Commit {
        snapshots: vec![made.clone()],
        ..of_writers(&[&before])
    };
    commit(store, of).await;
    drop(before);
    assert_older_writers(&*collection, 0).await;
    assert_arrivals(&*collection, &[id(&made)]).await;
    commit(store, of_snapshots(vec![bare("later")])).await;
    assert_arrivals(&*collection, &[]).await;
    drop(collection);
}

/// The guard that a commit returns holds its snapshots, whether the commit came
/// before or during a collection.
pub async fn a_commit_holds_its_snapshots(store: &impl Store) {
    let (before, during) = (bare("before"), bare("during"));
    let make = async |made: &Snapshot| {
        let made = store.commit(ALICE, of_snapshots(vec![made.clone()])).await;
        made.expect("commit").held
    };
    let held = make(&before).await;
    let collection = begin(store, GcScope::Full).await;
    assert_arrivals(&*collection, &[id(&before)]).await;
    let also_held = make(&during).await;
    collection.mark(&[key(id(&before))]).await.expect("mark");
    end(collection).await;
    for made in [&before, &during] {
        assert!(is_stored(store, ALICE, id(made)).await);
    }
    drop(held);
    let collection = begin(store, GcScope::Full).await;
    // Only one is held.
    assert_arrivals(&*collection, &[id(&during)]).await;
    drop(also_held);
    end(collection).await;
    for made in [&before, &during] {
        assert!(!is_stored(store, ALICE, id(made)).await);
    }
}

/// A tenant has one collection at a time; an unfinished one has no effect.
pub async fn an_interrupted_collection_deletes_nothing(store: &impl Store) {
    let object = chunk("stays");
    put(store, &[&object]).await;
    let first = begin(store, GcScope::Full).await;
    assert_refused(store.collection(ALICE, GcScope::Full).await.map(drop));
    assert!(store.collection(BOB, GcScope::Full).await.is_ok());
    drop(first);
    assert!(get(store, ALICE, &object).await.is_some());
    let second = begin(store, GcScope::Young).await;
    assert_eq!(second.scope(), GcScope::Full, "the first did not finish");
    mark(&*second, &object).await;
    end(second).await;
    assert!(get(store, ALICE, &object).await.is_some());
}

/// Marks last from one collection to the next, until a full one.
pub async fn a_young_collection_keeps_earlier_marks(store: &impl Store) {
    let (old, new, dead) = (directory("old"), directory("new"), directory("dead"));
    put(store, &[&old]).await;
    let first = begin(store, GcScope::Full).await;
    mark(&*first, &old).await;
    end(first).await;
    put(store, &[&new, &dead]).await;
    let second = begin(store, GcScope::Young).await;
    assert_eq!(second.scope(), GcScope::Young);
    let keys = [old.key, new.key];
    assert_eq!(second.marked(&keys).await.expect("marked"), [true, false]);
    assert!(!mark(&*second, &old).await);
    assert!(mark(&*second, &new).await);
    assert!(close(&*second).await);
    let keys = [old.key, new.key, dead.key];
    let removed = second.remove(&keys).await.expect("remove");
    assert_eq!(removed, [false, false, true]);
    second.finish().await.expect("finish");
    assert!(get(store, ALICE, &old).await.is_some());
    assert!(get(store, ALICE, &dead).await.is_none());
    let third = begin(store, GcScope::Full).await;
    let keys = [old.key, new.key];
    assert_eq!(third.marked(&keys).await.expect("marked"), [false, false]);
    mark(&*third, &new).await;
    assert_eq!(end(third).await, 1);
    assert!(get(store, ALICE, &old).await.is_none());
}
