//! Reads from S3: requests, the cache, and bytes that are wrong.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{Commit, GcScope, Object, Store, StoreError};
use elevo_objects::{Kind, ObjectKey, Snapshot, Tree};
use elevo_store_cluster::{ClusterStore, Options};
use elevo_testkit::wire::{Direction, Fault};
use futures::future::join_all;
use support::{NEVER, Place};

const TENANT: TenantId = TenantId::new([7; 16]);
const MIB: usize = 1 << 20;

impl Place {
    /// Opens a store that knows nothing yet, and writes everything to S3.
    async fn open(&self, change: impl FnOnce(&mut Options)) -> ClusterStore {
        let mut options = self.options();
        options.inline_bytes = 0;
        change(&mut options);
        ClusterStore::open(options).await.unwrap()
    }

    /// Commits objects by another process.
    async fn commit(&self, objects: Vec<Object>) -> Vec<ObjectKey> {
        let keys = objects.iter().map(|object| object.key).collect();
        let store = self.open(|_| {}).await;
        let commit = Commit {
            objects,
            ..Commit::default()
        };
        store.commit(TENANT, commit).await.unwrap();
        store.close().await.unwrap();
        keys
    }

    fn requests(&self) -> u64 {
        self.files.trips().trips
    }
}

/// A store that does nothing in the background.
fn quiet(options: &mut Options) {
    options.beat = NEVER;
    options.lease = NEVER;
}

/// Objects that cannot be compressed, in the order of their numbers.
fn objects(kind: Kind, count: usize, size: usize) -> Vec<Object> {
    let mut state = 1_u64;
    let mut noise = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state ^ (state >> 29)).to_le_bytes()
    };
    let object = |_| {
        let mut data: Vec<u8> = (0..size.div_ceil(8)).flat_map(|_| noise()).collect();
        data.truncate(size);
        let data = Bytes::from(data);
        let key = kind.key(&data);
        Object { key, data }
    };
    (0..count).map(object).collect()
}

async fn assert_reads(store: &ClusterStore, keys: &[ObjectKey]) {
    let found = store.get(TENANT, keys).await.unwrap();
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(key.kind.key(&found.unwrap()), *key);
    }
}

#[tokio::test]
async fn objects_near_each_other_are_one_request() {
    let place = Place::new();
    let keys = place.commit(objects(Kind::Chunk, 300, 20_000)).await;
    let store = place.open(|_| {}).await;
    let before = place.requests();
    assert_reads(&store, &keys).await;
    assert_eq!(place.requests() - before, 1, "6 MB");
    assert_reads(&store, &keys).await;
    assert_eq!(place.requests() - before, 1, "the second time");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_for_the_same_objects_at_once_are_one_request() {
    let place = Place::new();
    let keys = place.commit(objects(Kind::Chunk, 10, 20_000)).await;
    let store = place.open(|_| {}).await;
    place.files.delay(Duration::from_millis(200));
    let before = place.requests();
    join_all((0..20).map(|_| assert_reads(&store, &keys))).await;
    assert_eq!(place.requests() - before, 1);
}

/// Each call reads one object.
#[tokio::test]
async fn a_file_that_is_read_in_order_takes_few_requests() {
    let place = Place::new();
    let keys = place.commit(objects(Kind::Chunk, 800, 20_000)).await;
    let store = place.open(|_| {}).await;
    let before = place.requests();
    for key in &keys {
        assert_reads(&store, std::slice::from_ref(key)).await;
    }
    let requests = place.requests() - before;
    assert!((2..=6).contains(&requests), "{requests} for 16 MB");
}

/// Nodes take a request only where they are far from each other.
#[tokio::test]
async fn the_first_node_of_a_pack_makes_the_places_of_all_others_known() {
    let place = Place::new();
    let keys = place.commit(objects(Kind::Directory, 200, 20_000)).await;
    let store = place.open(quiet).await;
    assert_reads(&store, &keys[..1]).await;
    let before = place.sql.trips().trips;
    for key in &keys[1..] {
        assert_reads(&store, std::slice::from_ref(key)).await;
    }
    // Some at the beginning are those of the background.
    let trips = place.sql.trips().trips - before;
    assert!(trips < 20, "{trips} for 199 calls");
}

/// Those that the process of an import has made one after the other.
#[tokio::test]
async fn the_indexes_of_packs_of_nodes_come_with_the_root() {
    let place = Place::new();
    let importer = place.open(|_| {}).await;
    let nodes = objects(Kind::Directory, 90, 20_000);
    let keys: Vec<_> = nodes.iter().rev().map(|node| node.key).collect();
    for part in nodes.chunks(30) {
        let commit = Commit {
            objects: part.to_vec(),
            ..Commit::default()
        };
        importer.commit(TENANT, commit).await.unwrap();
    }
    let root = Tree {
        root: Some(keys[0].hash),
        count: 1,
        bytes: 1,
    };
    let snapshot = Snapshot {
        tree: root,
        times: None,
        parents: Vec::new(),
        author: "reads".into(),
        message: String::new(),
        created: Timestamp::EPOCH,
        labels: Default::default(),
    };
    let commit = Commit {
        snapshots: vec![snapshot],
        ..Commit::default()
    };
    let made = importer.commit(TENANT, commit).await.unwrap();
    let store = place.open(quiet).await;
    assert!(store.hold(TENANT, &made.ids).await.unwrap().is_some());
    let before = place.sql.trips().trips;
    for key in &keys {
        assert_reads(&store, std::slice::from_ref(key)).await;
    }
    let trips = place.sql.trips().trips - before;
    assert!(trips < 20, "{trips} for 90 calls");
}

/// The index of a pack also names objects that are stored elsewhere. It counts
/// until objects have been deleted.
#[tokio::test]
async fn the_index_of_a_pack_with_duplicates_is_used_until_objects_are_deleted() {
    let place = Place::new();
    let all = objects(Kind::Directory, 200, 20_000);
    place.commit(all[..1].to_vec()).await;
    let keys = place.commit(all).await;
    let trips = async |keys: &[ObjectKey]| {
        let store = place.open(quiet).await;
        assert_reads(&store, &keys[..1]).await;
        let before = place.sql.trips().trips;
        for key in &keys[1..] {
            assert_reads(&store, std::slice::from_ref(key)).await;
        }
        let trips = place.sql.trips().trips - before;
        // Otherwise the collection would wait for it.
        store.close().await.unwrap();
        trips
    };
    // Begins with one of the second pack.
    let used = trips(&keys[1..]).await;
    assert!(used < 20, "{used} for 198 calls");

    let collector = place.open(|_| {}).await;
    let collection = collector.collection(TENANT, GcScope::Full).await.unwrap();
    collection.mark(&keys[1..]).await.unwrap();
    while collection.older_writers().await.unwrap() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(collection.close().await.unwrap());
    let removed = collection.remove(&keys[..1]).await.unwrap();
    assert_eq!(removed, [true]);
    collection.finish().await.unwrap();
    let store = place.open(|_| {}).await;
    assert_reads(&store, &keys[1..]).await;
    let found = store.get(TENANT, &keys[..1]).await.unwrap();
    assert_eq!(found, [None]);
}

#[tokio::test]
async fn blocks_on_disk_are_read_after_a_restart() {
    let place = Place::new();
    let directory = tempfile::tempdir().unwrap();
    let disk = |path: &Path| Some((path.to_owned(), 128 * MIB as u64));
    let keys = place.commit(objects(Kind::Chunk, 300, 20_000)).await;
    let store = place
        .open(|options| options.cache.disk = disk(directory.path()))
        .await;
    assert_reads(&store, &keys).await;
    store.close().await.unwrap();
    drop(store);
    let store = place
        .open(|options| options.cache.disk = disk(directory.path()))
        .await;
    let before = place.requests();
    assert_reads(&store, &keys).await;
    assert_eq!(place.requests(), before);
}

/// Although this process knows its place and has its bytes.
#[tokio::test]
async fn an_object_that_another_process_has_collected_is_not_found() {
    for (kind, inline_bytes) in [(Kind::Chunk, 0), (Kind::Directory, 0), (Kind::Chunk, MIB)] {
        let place = Place::new();
        let change = |options: &mut Options| options.inline_bytes = inline_bytes;
        let (reader, collector) = (place.open(change).await, place.open(change).await);
        let objects = objects(kind, 10, 1_000);
        let keys: Vec<_> = objects.iter().map(|object| object.key).collect();
        let commit = Commit {
            objects,
            ..Commit::default()
        };
        collector.commit(TENANT, commit).await.unwrap();
        assert_reads(&reader, &keys).await;
        let collection = collector.collection(TENANT, GcScope::Full).await.unwrap();
        collection.mark(&keys[..5]).await.unwrap();
        while collection.older_writers().await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(collection.close().await.unwrap());
        // Some are read again before they are deleted.
        assert_reads(&reader, &keys).await;
        let removed = collection.remove(&keys).await.unwrap();
        assert_eq!(removed, [[false; 5], [true; 5]].concat());
        let found = reader.get(TENANT, &keys).await.unwrap();
        let found: Vec<_> = found.iter().map(Option::is_some).collect();
        assert_eq!(found, [[true; 5], [false; 5]].concat());
        collection.finish().await.unwrap();
    }
}

#[tokio::test]
async fn a_bit_that_flips_on_the_way_is_read_again() {
    let place = Place::new();
    let keys = place.commit(objects(Kind::Chunk, 1, 200_000)).await;
    let store = place.open(|_| {}).await;
    // In the body of the answer.
    place.files.set(Fault::Flip {
        direction: Direction::Down,
        at: 100_000,
        bit: 3,
    });
    assert_reads(&store, &keys).await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again() {
    let place = Place::new();
    let keys = place.commit(objects(Kind::Chunk, 10, 100_000)).await;
    let store = place.open(|_| {}).await;
    place.files.set(Fault::Cut {
        direction: Direction::Down,
        after: 100_000,
    });
    assert_reads(&store, &keys).await;
}

#[tokio::test]
async fn a_bucket_that_cannot_be_reached_fails_a_read_and_the_next_one_succeeds() {
    let place = Place::new();
    let keys = place.commit(objects(Kind::Chunk, 10, 20_000)).await;
    let retry = Duration::from_millis(200);
    let store = place.open(|options| options.bucket.retry = retry).await;
    place.files.fence();
    let failed = store.get(TENANT, &keys).await;
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    place.files.heal();
    assert_reads(&store, &keys).await;
}

/// Objects that a writer puts are uploaded before its commit. An upload that fails
/// is repeated.
#[tokio::test]
async fn a_writer_goes_on_after_uploads_have_failed() {
    let place = Place::new();
    let retry = Duration::from_millis(200);
    let store = place.open(|options| options.bucket.retry = retry).await;
    let objects = objects(Kind::Chunk, 550, 200_000);
    let keys: Vec<_> = objects.iter().map(|object| object.key).collect();
    let writer = store.writing(TENANT).await.unwrap();
    place.files.fence();
    let mut failed = 0;
    for objects in objects.chunks(20) {
        let put = store.put(TENANT, &writer, objects.to_vec()).await;
        failed += usize::from(put.is_err());
    }
    assert!(failed > 0, "the fifth upload begins after one has failed");
    assert_reads(&store, &keys).await;
    place.files.heal();
    let commit = Commit {
        after: vec![writer.id()],
        ..Commit::default()
    };
    store.commit(TENANT, commit).await.unwrap();
    drop(writer);
    assert_reads(&place.open(|_| {}).await, &keys).await;
}
