//! The packs of small commits move into S3.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{Commit, GcScope, Object, Store, StoreError};
use elevo_objects::{Kind, ObjectKey};
use elevo_store_cluster::{BundleOptions, ClusterStore};
use elevo_testkit::wire::Fault;
use sqlx::{Connection, PgConnection};
use support::{NEVER, Place};
use tokio::time::sleep;

const TENANT: TenantId = TenantId::new([7; 16]);

/// Everything is due at once, and only when a test says so.
const NOW: BundleOptions = BundleOptions {
    age: Duration::ZERO,
    bytes: 0,
    oldest: Duration::ZERO,
};

impl Place {
    async fn open(&self, bundle: BundleOptions) -> ClusterStore {
        self.open_with(bundle, NEVER).await
    }

    async fn open_with(&self, bundle: BundleOptions, upkeep: Duration) -> ClusterStore {
        let mut options = self.options();
        options.bundle = bundle;
        options.upkeep = upkeep;
        options.bucket.retry = Duration::from_millis(200);
        ClusterStore::open(options).await.unwrap()
    }

    async fn ask(&self, query: &'static str) -> String {
        let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
        let asked = sqlx::query_scalar(query).fetch_one(&mut connection);
        asked.await.unwrap()
    }

    async fn inline_packs(&self) -> String {
        self.ask("SELECT count(*)::text FROM store.packs WHERE bytes IS NOT NULL")
            .await
    }
}

fn object(n: usize) -> Object {
    let data = Bytes::from(format!("object {n} ").repeat(20));
    let key = Kind::Chunk.key(&data);
    Object { key, data }
}

/// Commits each object alone.
async fn commit(store: &ClusterStore, numbers: std::ops::Range<usize>) -> Vec<ObjectKey> {
    let mut keys = Vec::new();
    for n in numbers {
        let object = object(n);
        keys.push(object.key);
        let commit = Commit {
            objects: vec![object],
            ..Commit::default()
        };
        store.commit(TENANT, commit).await.unwrap();
    }
    keys
}

async fn assert_reads(store: &ClusterStore, keys: &[ObjectKey]) {
    let found = store.get(TENANT, keys).await.unwrap();
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(key.kind.key(&found.unwrap()), *key);
    }
}

#[tokio::test]
async fn many_packs_become_one_file() {
    let place = Place::new();
    let store = place.open(NOW).await;
    let keys = commit(&store, 0..100).await;
    let before = (
        place.files.trips().trips,
        store.stored_bytes(TENANT).await.unwrap(),
    );
    assert_eq!(store.bundle().await.unwrap(), 1);
    assert_eq!(place.files.trips().trips - before.0, 1);
    assert_eq!(place.inline_packs().await, "0");
    assert_eq!(store.stored_bytes(TENANT).await.unwrap(), before.1);
    // One that knows the packs, and one that asks for them.
    let other = place.open(NOW).await;
    for store in [&store, &other] {
        assert_reads(store, &keys).await;
    }
    assert_eq!(store.bundle().await.unwrap(), 0);
}

#[tokio::test]
async fn packs_move_by_themselves() {
    let place = Place::new();
    let store = place.open_with(NOW, Duration::from_millis(2)).await;
    let keys = commit(&store, 0..10).await;
    while place.inline_packs().await != "0" {
        sleep(Duration::from_millis(5)).await;
    }
    assert_reads(&place.open(NOW).await, &keys).await;
}

#[tokio::test]
async fn packs_move_when_they_are_old_or_many() {
    let place = Place::new();
    for (round, (bytes, age, oldest, files)) in [
        (1 << 20, Duration::ZERO, NEVER, 0),
        (1 << 20, Duration::ZERO, Duration::ZERO, 1),
        (1 << 10, NEVER, NEVER, 0),
        (1 << 10, Duration::ZERO, NEVER, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let store = place.open(BundleOptions { age, bytes, oldest }).await;
        commit(&store, round * 20..(round + 1) * 20).await;
        let bundled = store.bundle().await.unwrap();
        assert_eq!(bundled, files, "{bytes} {age:?} {oldest:?}");
        if files == 0 {
            assert_eq!(place.open(NOW).await.bundle().await.unwrap(), 1);
        }
    }
}

/// The file of the slower one stays unused.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_bundle_at_once_lose_nothing() {
    let place = Place::new();
    let stores = [place.open(NOW).await, place.open(NOW).await];
    for round in 0..10 {
        let keys = commit(&stores[0], round * 20..(round + 1) * 20).await;
        let bundled = tokio::join!(stores[0].bundle(), stores[1].bundle());
        let files = bundled.0.unwrap() + bundled.1.unwrap();
        assert!(files >= 1, "one of them succeeds");
        assert_reads(&place.open(NOW).await, &keys).await;
    }
    assert_eq!(place.inline_packs().await, "0");
}

#[tokio::test]
async fn an_upload_that_fails_changes_nothing_and_the_next_one_succeeds() {
    let place = Place::new();
    let store = place.open(NOW).await;
    let keys = commit(&store, 0..20).await;
    // A store opens only with its bucket.
    let other = place.open(NOW).await;
    place.files.set(Fault::Refuse);
    place.files.cut_all();
    let failed = store.bundle().await;
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    assert_eq!(place.inline_packs().await, "20");
    assert_reads(&other, &keys).await;
    place.files.heal();
    assert_eq!(store.bundle().await.unwrap(), 1);
    assert_reads(&place.open(NOW).await, &keys).await;
}

#[tokio::test]
async fn a_file_is_live_until_its_last_object_is_deleted() {
    let place = Place::new();
    let store = place.open(NOW).await;
    let keys = commit(&store, 0..10).await;
    assert_eq!(store.bundle().await.unwrap(), 1);
    let inline = commit(&store, 10..12).await;
    let live = "SELECT string_agg((live > 0)::text, ',') FROM store.files WHERE state = 'l'";
    for (kept, expected) in [(9, "true"), (1, "true"), (0, "false")] {
        let collection = store.collection(TENANT, GcScope::Full).await.unwrap();
        collection.mark(&keys[..kept]).await.unwrap();
        while collection.older_writers().await.unwrap() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
        assert!(collection.close().await.unwrap());
        collection.remove(&keys).await.unwrap();
        collection.remove(&inline).await.unwrap();
        collection.finish().await.unwrap();
        assert_eq!(place.ask(live).await, expected, "{kept}");
        let other = place.open(NOW).await;
        assert_reads(&other, &keys[..kept]).await;
        let gone = other.get(TENANT, &keys[kept..]).await.unwrap();
        assert!(gone.iter().all(Option::is_none));
        // Otherwise the next collection would wait for it.
        other.close().await.unwrap();
    }
    assert_eq!(place.inline_packs().await, "2");
    assert_eq!(store.bundle().await.unwrap(), 0);
}
