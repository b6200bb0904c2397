//! Files in S3 end when nothing needs them, and not before.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{Commit, GcScope, Object, Store, StoreError};
use elevo_objects::{Kind, ObjectKey};
use elevo_store_cluster::{ClusterStore, Compared, OpenError};
use elevo_testkit::wire::Fault;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use support::Place;
use tokio::time::sleep;

const TENANT: TenantId = TenantId::new([7; 16]);

impl Place {
    /// Opens a store that keeps nothing in the database, and deletes files without
    /// a grace.
    async fn open(&self) -> ClusterStore {
        self.open_with_grace(Duration::ZERO).await
    }

    async fn open_with_grace(&self, grace: Duration) -> ClusterStore {
        let mut options = self.options();
        options.inline_bytes = 0;
        options.grace = grace;
        options.bucket.retry = Duration::from_millis(200);
        ClusterStore::open(options).await.unwrap()
    }

    async fn sql(&self, statement: &'static str) {
        let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
        let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut connection);
        done.await.unwrap();
    }

    async fn count(&self, table: &'static str) -> i64 {
        let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
        let query = AssertSqlSafe(format!("SELECT count(*) FROM store.{table}"));
        let counted = sqlx::query_scalar(query).fetch_one(&mut connection);
        counted.await.unwrap()
    }
}

fn object(n: usize) -> Object {
    let data = Bytes::from(format!("object {n} ").repeat(20));
    let key = Kind::Chunk.key(&data);
    Object { key, data }
}

/// Commits objects as one file.
async fn commit(
    store: &ClusterStore,
    numbers: std::ops::Range<usize>,
) -> Result<Vec<ObjectKey>, StoreError> {
    let objects: Vec<_> = numbers.map(object).collect();
    let keys = objects.iter().map(|object| object.key).collect();
    let commit = Commit {
        objects,
        ..Commit::default()
    };
    store.commit(TENANT, commit).await.map(|_| keys)
}

/// Deletes all objects but some.
async fn collect(store: &ClusterStore, kept: &[ObjectKey]) {
    let mut collection = store.collection(TENANT, GcScope::Full).await.unwrap();
    collection.mark(kept).await.unwrap();
    while collection.older_writers().await.unwrap() > 0 {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(collection.close().await.unwrap());
    while collection.sweep(false).await.unwrap().is_some() {}
    collection.finish().await.unwrap();
}

async fn assert_reads(store: &ClusterStore, keys: &[ObjectKey]) {
    let found = store.get(TENANT, keys).await.unwrap();
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(key.kind.key(&found.unwrap()), *key);
    }
}

/// Asserts that the bucket has this number of files, all of which are known.
async fn assert_files(store: &ClusterStore, files: u64) {
    let expected = Compared {
        files,
        ..Compared::default()
    };
    assert_eq!(store.compare_files().await.unwrap(), expected);
}

#[tokio::test]
async fn a_file_is_deleted_after_its_last_object() {
    let place = Place::new();
    let store = place.open().await;
    let kept = commit(&store, 0..5).await.unwrap();
    let some = commit(&store, 5..10).await.unwrap();
    commit(&store, 10..15).await.unwrap();
    assert_files(&store, 3).await;
    assert_eq!(store.clean().await.unwrap(), 0);
    let left = [&kept[..], &some[..1]].concat();
    collect(&store, &left).await;
    // The file with the marks is new.
    assert_files(&store, 4).await;
    assert_eq!(store.clean().await.unwrap(), 1);
    assert_files(&store, 3).await;
    assert_reads(&place.open().await, &left).await;
    assert_eq!(place.count("doomed").await, 0);
    // Those of the files and those of the commits, which have no objects.
    assert_eq!(place.count("packs WHERE file IS NOT NULL").await, 2);
}

#[tokio::test]
async fn a_file_stays_for_the_grace() {
    let place = Place::new();
    let store = place.open_with_grace(Duration::from_secs(3600)).await;
    commit(&store, 0..5).await.unwrap();
    collect(&store, &[]).await;
    assert_eq!(store.clean().await.unwrap(), 0);
    assert_eq!(place.count("doomed").await, 1);
    assert_files(&store, 2).await;
    place
        .sql("UPDATE store.doomed SET after = after - interval '1 hour'")
        .await;
    assert_eq!(store.clean().await.unwrap(), 1);
    assert_files(&store, 1).await;
}

#[tokio::test]
async fn only_the_last_marks_stay() {
    let place = Place::new();
    let store = place.open().await;
    let kept = commit(&store, 0..5).await.unwrap();
    for _ in 0..3 {
        collect(&store, &kept).await;
    }
    assert_files(&store, 4).await;
    assert_eq!(store.clean().await.unwrap(), 2);
    let collection = store.collection(TENANT, GcScope::Young).await.unwrap();
    assert_eq!(collection.scope(), GcScope::Young, "the marks are there");
    drop(collection);
    assert_reads(&place.open().await, &kept).await;
}

/// The objects were stored by another commit while the file was uploaded.
#[tokio::test]
async fn a_file_without_a_new_object_is_deleted() {
    let place = Place::new();
    let stores = [place.open().await, place.open().await];
    place.files.set(Fault::Hang);
    let both = async { tokio::join!(commit(&stores[0], 0..5), commit(&stores[1], 0..5)) };
    let heal = async {
        while place.count("files").await < 2 {
            sleep(Duration::from_millis(5)).await;
        }
        place.files.heal();
    };
    let (both, ()) = tokio::join!(both, heal);
    let keys = both.0.unwrap();
    both.1.unwrap();
    assert_files(&stores[0], 2).await;
    assert_eq!(stores[0].clean().await.unwrap(), 1);
    assert_reads(&place.open().await, &keys).await;
}

/// Commits while S3 fails, and returns the store.
async fn fail(place: &Place) -> ClusterStore {
    let store = place.open().await;
    place.files.set(Fault::Refuse);
    place.files.cut_all();
    let failed = commit(&store, 0..5).await;
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    place.files.heal();
    store
}

#[tokio::test]
async fn the_upload_of_a_process_that_ended_is_deleted() {
    let place = Place::new();
    let store = fail(&place).await;
    let other = place.open().await;
    assert_eq!(other.clean().await.unwrap(), 0);
    store.close().await.unwrap();
    assert_eq!(other.clean().await.unwrap(), 1);
    assert_eq!(place.count("files").await, 0);
}

#[tokio::test]
async fn the_failed_upload_of_a_running_process_is_deleted_after_a_day() {
    let place = Place::new();
    let store = fail(&place).await;
    assert_eq!(store.clean().await.unwrap(), 0);
    place
        .sql("UPDATE store.files SET made = made - interval '1 day'")
        .await;
    assert_eq!(store.clean().await.unwrap(), 1);
    let keys = commit(&store, 0..5).await.unwrap();
    assert_reads(&store, &keys).await;
}

#[tokio::test]
async fn an_upload_fails_whose_file_is_doomed_and_the_next_one_succeeds() {
    let place = Place::new();
    let store = place.open().await;
    place.files.set(Fault::Hang);
    let doom = async {
        while place.count("files").await == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        place
            .sql("UPDATE store.files SET made = made - interval '1 day'")
            .await;
        place.sql("SELECT store.doom_1(interval '1 day', 10)").await;
        place.files.heal();
    };
    let (failed, ()) = tokio::join!(commit(&store, 0..5), doom);
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    let keys = commit(&store, 0..5).await.unwrap();
    assert_reads(&place.open().await, &keys).await;
    place
        .sql("UPDATE store.doomed SET after = now() - interval '1 day'")
        .await;
    assert_eq!(store.clean().await.unwrap(), 1);
    assert_reads(&place.open().await, &keys).await;
}

#[tokio::test]
async fn a_deletion_that_fails_is_repeated() {
    let place = Place::new();
    let store = place.open().await;
    commit(&store, 0..5).await.unwrap();
    collect(&store, &[]).await;
    place.files.set(Fault::Refuse);
    place.files.cut_all();
    let failed = store.clean().await;
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    place.files.heal();
    assert_eq!(place.count("doomed").await, 1);
    assert_eq!(store.clean().await.unwrap(), 1);
    assert_files(&store, 1).await;
}

#[tokio::test]
async fn more_files_than_a_batch_are_deleted() {
    let place = Place::new();
    let store = place.open().await;
    place
        .sql(
            "INSERT INTO store.doomed SELECT decode(md5(n::text), 'hex'), 1, now() \
             FROM generate_series(1, 2500) AS n",
        )
        .await;
    assert_eq!(store.clean().await.unwrap(), 2500);
    assert_eq!(place.count("doomed").await, 0);
}

/// Rows of packs that are in no file: those of commits that moved only refs too.
#[tokio::test]
async fn dead_packs_are_deleted_from_the_database_after_an_hour() {
    let place = Place::new();
    let mut options = place.options();
    options.bundle.age = Duration::ZERO;
    let store = ClusterStore::open(options).await.unwrap();
    let kept = commit(&store, 0..5).await.unwrap();
    commit(&store, 5..10).await.unwrap();
    commit(&store, 0..0).await.unwrap();
    collect(&store, &kept).await;
    store.clean().await.unwrap();
    assert_eq!(place.count("packs").await, 3);
    place
        .sql("UPDATE store.packs SET made = made - interval '1 hour'")
        .await;
    store.clean().await.unwrap();
    assert_eq!(place.count("packs").await, 1);
    assert_reads(&place.open().await, &kept).await;
}

#[tokio::test]
async fn nodes_that_ended_are_forgotten_after_a_day() {
    let place = Place::new();
    let store = place.open().await;
    place.open().await.close().await.unwrap();
    let lost = fail(&place).await;
    place
        .sql("UPDATE store.nodes SET expires = expires - interval '2 days' WHERE state = 'e'")
        .await;
    store.clean().await.unwrap();
    assert_eq!(place.count("nodes").await, 2);
    place
        .sql(
            "UPDATE store.nodes SET state = 'x', expires = expires - interval '2 days' \
             WHERE id = (SELECT node FROM store.files)",
        )
        .await;
    store.clean().await.unwrap();
    assert_eq!(place.count("nodes").await, 1, "its upload is doomed");
    let late = commit(&lost, 0..5).await;
    assert!(matches!(late, Err(StoreError::Lost)), "{late:?}");
}

#[tokio::test]
async fn a_comparison_finds_missing_and_unknown_files() {
    let place = Place::new();
    let store = place.open().await;
    commit(&store, 0..5).await.unwrap();
    let bucket = place.bucket();
    let name = "00112233445566778899aabbccddeeff";
    let path = Path::from_iter([&place.s3.prefix, "1", name]);
    let put = bucket.put(&path, PutPayload::from_static(b"unknown"));
    put.await.unwrap();
    place
        .sql(
            "INSERT INTO store.files (id, tenant, key, node, state, live) \
             VALUES (1, 1, '\\x00112233445566778899aabbccddee00', 1, 'l', 5)",
        )
        .await;
    let mut compared = store.compare_files().await.unwrap();
    compared.examples.sort();
    let expected = Compared {
        files: 2,
        missing: 1,
        unknown: 1,
        examples: vec![
            "1/00112233445566778899aabbccddee00".into(),
            format!("1/{name}"),
        ],
    };
    assert_eq!(compared, expected);
    // Both stay.
    assert_eq!(store.clean().await.unwrap(), 0);
    assert_eq!(store.compare_files().await.unwrap().files, 2);
}

/// As after a restore from a backup: the bucket stays as it is.
#[tokio::test]
async fn a_database_of_an_earlier_moment_finds_its_files() {
    let place = Place::new();
    let grace = Duration::from_secs(3600);
    let store = place.open_with_grace(grace).await;
    let keys = commit(&store, 0..5).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    // A database that is in use cannot be copied.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'";
    place.database.execute(end);
    let copy = "CREATE DATABASE {}_earlier TEMPLATE {}";
    place.database.execute(copy);
    let store = place.open_with_grace(grace).await;
    collect(&store, &[]).await;
    assert_eq!(store.clean().await.unwrap(), 0);
    commit(&store, 5..10).await.unwrap();
    assert!(store.get(TENANT, &keys).await.unwrap()[0].is_none());
    let mut options = support::options(&place.database, &place.s3);
    options.database = place.database.url().replace(
        place.database.name(),
        &format!("{}_earlier", place.database.name()),
    );
    options.upkeep = support::NEVER;
    let refused = ClusterStore::open(options.clone()).await;
    assert!(
        matches!(refused, Err(OpenError::OlderDatabase { .. })),
        "{refused:?}"
    );
    options.adopts = true;
    let earlier = ClusterStore::open(options).await.unwrap();
    assert_reads(&earlier, &keys).await;
    // It has taken over the bucket, so the original must not delete its files.
    let due = "UPDATE store.doomed SET after = now() - interval '1 hour'";
    place.database.execute_inside(due);
    let refused = store.clean().await;
    assert!(
        matches!(refused, Err(StoreError::Refused(_))),
        "{refused:?}"
    );
    assert_reads(&earlier, &keys).await;
    let compared = earlier.compare_files().await.unwrap();
    assert_eq!((compared.missing, compared.unknown), (0, 2), "{compared:?}");
    earlier.close().await.unwrap();
    place
        .database
        .execute("DROP DATABASE {}_earlier WITH (FORCE)");
}

/// A server that starts while others do must not take its database for an older
/// copy.
#[tokio::test]
async fn a_store_is_found_and_opened_while_other_processes_open_it() {
    let place = Place::new();
    place.open().await.close().await.unwrap();
    // The slow process compares its bucket with its database meanwhile.
    place.files.delay(Duration::from_millis(300));
    let is_open = Cell::new(false);
    let slow = async {
        let found = ClusterStore::find(&place.options()).await.unwrap();
        assert!(found.is_some());
        let store = ClusterStore::open(place.options()).await.unwrap();
        is_open.set(true);
        store.close().await.unwrap();
    };
    let others = async {
        while !is_open.get() {
            let options = support::options(&place.database, &place.s3);
            let other = ClusterStore::open(options).await.unwrap();
            other.close().await.unwrap();
        }
    };
    tokio::join!(slow, others);
}
