//! Answers that are lost, files that are damaged, and processes that are.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{
    Collection, Commit, Expected, GcScope, Object, ReferenceUpdate, Store, StoreError,
};
use elevo_objects::{Kind, Snapshot, SnapshotId, Tree};
use elevo_store_cluster::{ClusterStore, Options};
use elevo_testkit::wait::until_async;
use elevo_testkit::wire::{Direction, Fault, Faults, Kind as FaultKind};
use sqlx::{Connection, PgConnection};
use support::{NEVER, Place};
use tokio::time::sleep;

const TENANT: TenantId = TenantId::new([7; 16]);

impl Place {
    fn quiet_options(&self) -> Options {
        let mut options = self.options();
        // Only calls of the test are on the wire.
        options.beat = NEVER;
        options.lease = NEVER;
        options.bucket.retry = Duration::from_millis(200);
        options.settle = Duration::from_secs(300);
        options
    }

    /// Makes a process late: the one with the smallest or the greatest number.
    fn expire(&self, which: &str) {
        let expire = format!(
            "UPDATE store.nodes SET expires = now() - interval '1 second' \
             WHERE id = (SELECT {which}(id) FROM store.nodes)"
        );
        self.database.execute_inside(&expire);
    }

    async fn open(&self, change: impl FnOnce(&mut Options)) -> ClusterStore {
        let mut options = self.quiet_options();
        change(&mut options);
        ClusterStore::open(options).await.unwrap()
    }
}

fn chunk(data: impl Into<Bytes>) -> Object {
    let data = data.into();
    let key = Kind::Chunk.key(&data);
    Object { key, data }
}

fn snapshot(message: impl Into<String>) -> (Snapshot, SnapshotId) {
    let snapshot = Snapshot {
        tree: Tree::EMPTY,
        times: None,
        parents: Vec::new(),
        author: "faults".into(),
        message: message.into(),
        created: Timestamp::EPOCH,
        labels: Default::default(),
    };
    let id = snapshot.encode().unwrap().0;
    (snapshot, id)
}

/// A commit of an object and a snapshot that moves the ref `head`.
fn step(n: u64, from: Expected) -> (Commit, SnapshotId) {
    let (snapshot, id) = snapshot(format!("{n}"));
    let commit = Commit {
        objects: vec![chunk(format!("object {n}"))],
        snapshots: vec![snapshot],
        references: vec![ReferenceUpdate {
            name: "head".into(),
            expected: from,
            target: Some(id),
        }],
        after: Vec::new(),
    };
    (commit, id)
}

async fn head(store: &ClusterStore) -> Option<SnapshotId> {
    store.reference(TENANT, "head").await.unwrap()
}

/// A repair would set the ref to an older value if it took this for damage.
#[tokio::test]
async fn a_read_that_an_operator_cancels_is_not_damage() {
    let place = Place::new();
    let store = place.open(|_| {}).await;
    store
        .commit(TENANT, step(0, Expected::Absent).0)
        .await
        .unwrap();
    let mut lock = PgConnection::connect(&place.database.url()).await.unwrap();
    let locked = "BEGIN; LOCK TABLE store.refs IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(locked).execute(&mut lock).await.unwrap();
    let cancel = async {
        until_async("the read is cancelled", async || {
            let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
                WHERE datname = current_database() AND wait_event_type = 'Lock'";
            let cancelled = sqlx::query(cancel).fetch_optional(&mut lock).await;
            cancelled.unwrap().map(drop)
        })
        .await;
    };
    let (read, ()) = tokio::join!(store.reference(TENANT, "head"), cancel);
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
}

/// Both hosts are proxies of the same primary, so that one can be lost.
#[tokio::test]
async fn the_calls_on_a_host_that_vanishes_end_and_another_host_is_used() {
    let place = Place::new();
    let wires = [place.database.wire(), place.database.wire()];
    let [one, other] = [wires[0].address(), wires[1].address()];
    let url = place.database.url_through(&wires[0]);
    let url = url.replace(&one.to_string(), &format!("{one},{other}"));
    let store = place
        .open(|options| {
            options.database = url;
            options.check = Duration::from_millis(100);
        })
        .await;
    let (commit, first) = step(1, Expected::Absent);
    store.commit(TENANT, commit).await.unwrap();
    let used = wires.iter().max_by_key(|wire| wire.trips().trips).unwrap();
    used.set(Fault::Hang);
    // Repeated until its outcome is known.
    let (commit, second) = step(2, Expected::At(first));
    store.commit(TENANT, commit).await.unwrap();
    assert_eq!(head(&store).await, Some(second));
}

/// Nothing checks the host, so that only the limit ends the statement. Others are
/// much faster, also on a busy machine.
#[tokio::test]
async fn a_statement_without_an_answer_ends() {
    let place = Place::new();
    let store = place
        .open(|options| options.statement = Duration::from_secs(8))
        .await;
    let (commit, first) = step(1, Expected::Absent);
    store.commit(TENANT, commit).await.unwrap();
    place.sql.set(Fault::Hang);
    let failed = store.reference(TENANT, "head").await;
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    place.sql.heal();
    assert_eq!(head(&store).await, Some(first));
}

#[tokio::test]
async fn a_commit_without_an_answer_is_repeated_and_happens_once() {
    let place = Place::new();
    let store = place.open(|options| options.connections = 1).await;
    let mut from = Expected::Absent;
    for n in 0..10 {
        let (commit, id) = step(n, from);
        // The statement of the commit, or the check of the connection after it.
        place.sql.set(Fault::CutAtTrip { nth: 1 + n % 2 });
        store.commit(TENANT, commit).await.unwrap();
        assert_eq!(head(&store).await, Some(id));
        from = Expected::At(id);
    }
}

/// Each commit expects the one before, so a commit that happened twice, or not at
/// all, would be found.
#[tokio::test]
async fn commits_with_a_bad_connection_are_a_chain() {
    let place = Place::new();
    let store = place.open(|_| {}).await;
    let kinds = [
        FaultKind::Refuse,
        FaultKind::Delay,
        FaultKind::Cut,
        FaultKind::CutAtTrip,
    ];
    place.sql.plan(Faults::from_seed_of(1, &kinds));
    place.sql.cut_all();
    let mut from = Expected::Absent;
    for n in 0..200 {
        let (commit, id) = step(n, from);
        loop {
            match store.commit(TENANT, commit.clone()).await {
                Ok(_) => break,
                // Certain that it did not happen.
                Err(StoreError::Unavailable(_)) => {}
                Err(StoreError::ReferenceMoved { current, .. }) if current == Some(id) => {
                    panic!("commit {n} failed and happened")
                }
                Err(other) => panic!("commit {n}: {other:?}"),
            }
        }
        from = Expected::At(id);
    }
    place.sql.heal();
    let ids = store.list_snapshots(TENANT, None, 1000).await.unwrap();
    assert_eq!(ids.len(), 200);
}

#[tokio::test]
async fn a_database_that_refuses_connections_changes_nothing() {
    let place = Place::new();
    let store = place
        .open(|options| options.settle = Duration::from_millis(100))
        .await;
    let (first, id) = step(0, Expected::Absent);
    store.commit(TENANT, first).await.unwrap();
    place.sql.fence();
    let (second, _) = step(1, Expected::At(id));
    let mut failed = store.commit(TENANT, second.clone()).await;
    // A connection that was cut may have sent the statement.
    while let Err(StoreError::Unknown(_)) = failed {
        failed = store.commit(TENANT, second.clone()).await;
    }
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    place.sql.heal();
    assert_eq!(head(&store).await, Some(id));
    store.commit(TENANT, second).await.unwrap();
}

#[tokio::test]
async fn a_commit_whose_upload_fails_changes_nothing_and_can_be_repeated() {
    let place = Place::new();
    let store = place.open(|options| options.inline_bytes = 0).await;
    let (commit, id) = step(0, Expected::Absent);
    place.files.fence();
    let failed = store.commit(TENANT, commit.clone()).await;
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    assert_eq!(head(&store).await, None);
    place.files.heal();
    place.files.set(Fault::Cut {
        direction: Direction::Up,
        after: 20,
    });
    store.commit(TENANT, commit.clone()).await.unwrap();
    assert_eq!(head(&store).await, Some(id));
    let found = store.get(TENANT, &[commit.objects[0].key]).await.unwrap();
    assert_eq!(found, [Some(commit.objects[0].data.clone())]);
}

#[tokio::test]
async fn a_flipped_bit_is_reported() {
    let place = Place::new();
    for inline_bytes in [0, 1 << 20] {
        let store = place
            .open(|options| options.inline_bytes = inline_bytes)
            .await;
        let object = chunk(vec![inline_bytes as u8; 100]);
        let commit = Commit {
            objects: vec![object.clone()],
            ..Commit::default()
        };
        store.commit(TENANT, commit).await.unwrap();
        place
            .database
            .execute_inside("UPDATE store.objects SET start = start + 1, size = size - 1");
        let found = store.get(TENANT, &[object.key]).await;
        assert!(matches!(found, Err(StoreError::Damaged(_))), "{found:?}");
        place.database.execute_inside("DELETE FROM store.objects");
    }
}

#[tokio::test]
async fn a_missing_file_is_reported_as_damage_and_not_as_absent() {
    let place = Place::new();
    let store = place.open(|options| options.inline_bytes = 0).await;
    let object = chunk("in a file");
    let commit = Commit {
        objects: vec![object.clone()],
        ..Commit::default()
    };
    store.commit(TENANT, commit).await.unwrap();
    place
        .database
        .execute_inside("UPDATE store.files SET key = decode(md5('another'), 'hex')");
    let found = store.get(TENANT, &[object.key]).await;
    assert!(matches!(found, Err(StoreError::Damaged(_))), "{found:?}");
}

#[tokio::test]
async fn a_store_that_was_declared_lost_changes_nothing() {
    let place = Place::new();
    let (lost, other) = (place.open(|_| {}).await, place.open(|_| {}).await);
    let (commit, _) = step(0, Expected::Absent);
    other.commit(TENANT, commit).await.unwrap();
    let writer = lost.writing(TENANT).await.unwrap();
    place.expire("min");
    // A collection waits for no lost process.
    let collection = other.collection(TENANT, GcScope::Full).await.unwrap();
    assert_eq!(collection.older_writers().await.unwrap(), 0);
    drop(collection);
    let (commit, _) = step(1, Expected::Any);
    let failed = lost.commit(TENANT, commit).await;
    assert!(matches!(failed, Err(StoreError::Lost)), "{failed:?}");
    let failed = lost.put(TENANT, &writer, vec![chunk("one")]).await;
    assert!(matches!(failed, Err(StoreError::Lost)), "{failed:?}");
    let failed = lost.hold(TENANT, &[]).await;
    assert!(matches!(failed, Err(StoreError::Lost)), "{failed:?}");
    assert_eq!(
        other.list_snapshots(TENANT, None, 9).await.unwrap().len(),
        1
    );
}

#[tokio::test]
async fn the_collection_of_a_lost_process_ends_and_deletes_nothing() {
    let place = Place::new();
    let other = place.open(|_| {}).await;
    let (commit, id) = step(0, Expected::Absent);
    drop(other.commit(TENANT, commit).await.unwrap());
    let lost = place.open(|_| {}).await;
    let collection = lost.collection(TENANT, GcScope::Full).await.unwrap();
    place
        .database
        .execute_inside("UPDATE store.snapshots SET condemned = 1");
    let busy = other.collection(TENANT, GcScope::Full).await;
    assert!(matches!(busy, Err(StoreError::Refused(_))));
    place.expire("max");
    let next = other.collection(TENANT, GcScope::Young).await.unwrap();
    assert_eq!(
        next.scope(),
        GcScope::Full,
        "the earlier one did not finish"
    );
    assert!(other.hold(TENANT, &[id]).await.unwrap().is_some());
    let failed = collection.close().await;
    assert!(failed.is_err(), "{failed:?}");
}

/// The statement that ends an aborted collection may come late.
#[tokio::test]
async fn an_aborted_collection_does_not_end_one_that_took_over() {
    let place = Place::new();
    let store = place.open(|_| {}).await;
    let aborted = store.collection(TENANT, GcScope::Full).await.unwrap();
    let pool = sqlx::PgPool::connect(&place.database.url()).await.unwrap();
    // The other collection, which has not committed its beginning.
    let mut other = pool.begin().await.unwrap();
    let take_over = "UPDATE store.gc SET token = -1";
    sqlx::query(take_over).execute(&mut *other).await.unwrap();
    drop(aborted);
    let ending = "SELECT coalesce(string_agg(wait_event_type, ''), 'none') FROM pg_stat_activity \
                  WHERE query LIKE '%abort_1%' AND state = 'active' AND pid <> pg_backend_pid()";
    let ending = async || -> String { sqlx::query_scalar(ending).fetch_one(&pool).await.unwrap() };
    while ending().await != "Lock" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    other.commit().await.unwrap();
    while ending().await != "none" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let phase = "SELECT phase::text FROM store.gc";
    let phase: String = sqlx::query_scalar(phase).fetch_one(&pool).await.unwrap();
    assert_eq!(phase, "m");
}

/// The call that began it had no answer. Otherwise every later collection would
/// wait for it until its process ends.
#[tokio::test]
async fn a_session_that_its_process_does_not_know_ends() {
    let place = Place::new();
    let stores = [
        ClusterStore::open(place.options()).await.unwrap(),
        ClusterStore::open(place.options()).await.unwrap(),
    ];
    let known = stores[0].writing(TENANT).await.unwrap();
    place.database.execute_inside(
        "INSERT INTO store.sessions SELECT id - 1, tenant, node, number FROM store.sessions",
    );
    let collection = stores[1].collection(TENANT, GcScope::Full).await.unwrap();
    while collection.older_writers().await.unwrap() > 1 {
        sleep(Duration::from_millis(5)).await;
    }
    drop(known);
    while collection.older_writers().await.unwrap() > 0 {
        sleep(Duration::from_millis(5)).await;
    }
}

async fn wait_for_older_writers(collection: &dyn Collection) {
    while collection.older_writers().await.unwrap() > 0 {
        sleep(Duration::from_millis(5)).await;
    }
}

/// The snapshots that it has held are not known, and other commits may need them.
#[tokio::test]
async fn a_collection_deletes_nothing_if_a_process_ends_before_its_answer() {
    let place = Place::new();
    let open = async || ClusterStore::open(place.options()).await.unwrap();
    let (store, other) = (open().await, open().await);
    let (commit, id) = step(1, Expected::Absent);
    store.commit(TENANT, commit).await.unwrap();
    let collection = store.collection(TENANT, GcScope::Full).await.unwrap();
    wait_for_older_writers(&*collection).await;
    other.close().await.unwrap();
    let closed = collection.close().await;
    assert!(matches!(closed, Err(StoreError::Refused(_))), "{closed:?}");
    drop(collection);
    let collection = store.collection(TENANT, GcScope::Full).await.unwrap();
    wait_for_older_writers(&*collection).await;
    assert!(collection.close().await.unwrap());
    let unmarked = collection.unmarked_snapshots(None, 9).await.unwrap();
    assert_eq!(unmarked, [id], "it had no mark");
}

#[tokio::test]
async fn a_collection_that_was_taken_over_condemns_nothing() {
    let place = Place::new();
    let open = async || ClusterStore::open(place.options()).await.unwrap();
    let (store, other) = (open().await, open().await);
    let (commit, _) = step(1, Expected::Absent);
    drop(store.commit(TENANT, commit).await.unwrap());
    let earlier = store.collection(TENANT, GcScope::Full).await.unwrap();
    wait_for_older_writers(&*earlier).await;
    place
        .database
        .execute_inside("SELECT store.abandon_1(tenant) FROM store.gc");
    let later = other.collection(TENANT, GcScope::Full).await.unwrap();
    let closed = earlier.close().await;
    assert!(matches!(closed, Err(StoreError::Refused(_))), "{closed:?}");
    place.database.execute_inside(
        "DO $$ BEGIN ASSERT NOT EXISTS (\
            SELECT FROM store.snapshots WHERE condemned IS NOT NULL); END $$",
    );
    wait_for_older_writers(&*later).await;
    assert!(later.close().await.unwrap());
}
