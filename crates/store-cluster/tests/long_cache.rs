//! The cache on disk under a mixed load: readers, a writer, responses with wrong
//! bytes or without an end, restarts, and damage on the disk. Every read ends, and
//! returns the bytes that were written.
//!
//! `ELEVO_LONG` sets the number of rounds (see CONTRIBUTING.md); `ELEVO_SEED` repeats
//! the choices of a run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs::{self, File};
use std::io::ErrorKind::ResourceBusy;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{Commit, Object, Store, StoreError};
use elevo_objects::{Kind, ObjectKey};
use elevo_store_cluster::{CacheOptions, ClusterStore, OpenError, Options};
use elevo_testkit::long;
use elevo_testkit::wait::until_async;
use elevo_testkit::wire::{Direction, Fault};
use futures::future::join_all;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use support::{NEVER, Place};
use tempfile::TempDir;
use tokio::time::timeout;

const TENANT: TenantId = TenantId::new([7; 16]);
/// Rounds of an hour on two cores with other work.
const ROUNDS: u32 = 1000;
/// The cache in memory, far less than the files that a round reads.
const MEMORY: u64 = 8 << 20;
/// The cache on disk. The files are larger together.
const DISK: u64 = 128 << 20;
/// Files at the start, and the most that a run reads.
const FILES: usize = 24;
const MOST: usize = 48;
/// Objects of a file, and their size.
const OBJECTS: usize = 400;
const BYTES: usize = 20_000;
const READERS: usize = 8;
/// Reads of a reader in a round.
const READS: usize = 25;
/// A read that takes longer counts as stuck.
const STUCK: Duration = Duration::from_secs(120);

/// The keys of the objects of each file, in their order.
type Files = Vec<Arc<Vec<ObjectKey>>>;

fn options(place: &Place, directory: &Path) -> Options {
    Options {
        beat: NEVER,
        lease: NEVER,
        inline_bytes: 0,
        cache: CacheOptions {
            memory: MEMORY,
            disk: Some((directory.to_owned(), DISK)),
        },
        ..place.options()
    }
}

/// Commits a file of objects that cannot be compressed.
async fn commit(store: &ClusterStore, random: &mut SmallRng) -> Arc<Vec<ObjectKey>> {
    let object = |_| {
        let mut data = vec![0; BYTES];
        random.fill_bytes(&mut data);
        let data = Bytes::from(data);
        let key = Kind::Chunk.key(&data);
        Object { key, data }
    };
    let objects: Vec<_> = (0..OBJECTS).map(object).collect();
    let keys = objects.iter().map(|object| object.key).collect();
    let commit = Commit {
        objects,
        ..Commit::default()
    };
    store.commit(TENANT, commit).await.unwrap();
    Arc::new(keys)
}

/// Reads objects, whose bytes must be those that were written.
async fn read(store: &ClusterStore, keys: &[ObjectKey]) {
    let reading = async {
        loop {
            match store.get(TENANT, keys).await {
                // The head of a response was damaged.
                Err(StoreError::Unavailable(_)) => {}
                found => return found.unwrap(),
            }
        }
    };
    let found = timeout(STUCK, reading).await.expect("a read is stuck");
    for (key, found) in keys.iter().zip(found) {
        let found = found.expect("a stored object is found");
        assert_eq!(key.kind.key(&found), *key);
    }
}

/// Reads what an agent, a search or a checkout reads.
async fn read_some(store: &ClusterStore, files: &Files, random: &mut SmallRng) {
    let file = &files[random.random_range(0..files.len())];
    match random.random_range(0..4) {
        // One object.
        0 => read(store, &[file[random.random_range(0..OBJECTS)]]).await,
        // Some that lie together.
        1 => {
            let start = random.random_range(0..OBJECTS - 60);
            read(store, &file[start..start + 60]).await;
        }
        // A part in order, one after the other.
        2 => {
            let start = random.random_range(0..OBJECTS - 40);
            for key in &file[start..start + 40] {
                read(store, std::slice::from_ref(key)).await;
            }
        }
        // Objects of many files.
        _ => {
            let any = |_| {
                let file = &files[random.random_range(0..files.len())];
                file[random.random_range(0..OBJECTS)]
            };
            let keys: Vec<_> = (0..30).map(any).collect();
            read(store, &keys).await;
        }
    }
}

/// The work of a reader. All begin with the same objects at the same time.
async fn reader(store: Arc<ClusterStore>, files: Arc<Files>, common: usize, seed: u64) {
    read(&store, &files[common][..100]).await;
    let mut random = SmallRng::seed_from_u64(seed);
    for _ in 0..READS {
        read_some(&store, &files, &mut random).await;
    }
}

/// Changes bytes in the files of a cache that is not in use. Returns the number of
/// changes.
fn damage(directory: &Path, random: &mut SmallRng) -> u64 {
    let mut changes = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            changes += damage(&path, random);
            continue;
        }
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        for _ in 0..length.min(20) {
            file.write_all_at(&[random.random()], random.random_range(0..length))
                .unwrap();
            changes += 1;
        }
    }
    changes
}

/// A fault of a response of S3.
fn fault(random: &mut SmallRng) -> Fault {
    let place = random.random_range(0..4 << 20);
    match random.random() {
        true => Fault::Flip {
            direction: Direction::Down,
            at: place,
            bit: random.random_range(0..8),
        },
        false => Fault::Cut {
            direction: Direction::Down,
            after: place,
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_through_the_cache_ends_with_the_right_bytes() {
    let mut random = SmallRng::seed_from_u64(long::seed());
    let (place, directory) = (Place::new(), TempDir::new().unwrap());
    let opened = async || {
        // Requests that read ahead may still have the cache of the store before.
        until_async("the cache is free", async || {
            match ClusterStore::open(options(&place, directory.path())).await {
                Err(OpenError::Cache { source, .. }) if source.kind() == ResourceBusy => None,
                store => Some(Arc::new(store.unwrap())),
            }
        })
        .await
    };
    let store = opened().await;
    let mut files = Files::new();
    for _ in 0..FILES {
        files.push(commit(&store, &mut random).await);
    }
    store.close().await.unwrap();
    drop(store);
    let (mut changes, mut faults) = (0, 0);
    for _ in 0..long::rounds(ROUNDS, 2) {
        let store = opened().await;
        // A later file takes the place of an earlier one, whose objects stay.
        let new = commit(&store, &mut random).await;
        match files.len() < MOST {
            true => files.push(new),
            false => files[random.random_range(0..MOST)] = new,
        }
        if random.random() {
            place.files.set(fault(&mut random));
            faults += 1;
        }
        let (read, common) = (Arc::new(files.clone()), random.random_range(0..files.len()));
        let readers = (0..READERS)
            .map(|_| reader(store.clone(), read.clone(), common, random.random()))
            .map(tokio::spawn);
        for reader in join_all(readers).await {
            reader.unwrap();
        }
        place.files.heal();
        timeout(STUCK, store.close())
            .await
            .expect("closing is stuck")
            .unwrap();
        drop(store);
        if random.random_ratio(1, 3) {
            changes += damage(directory.path(), &mut random);
        }
    }
    long::note(format_args!(
        "{} files; {faults} responses with a fault, {changes} bytes of the cache changed",
        files.len()
    ));
}
