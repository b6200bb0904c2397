//! Commits that are derived from a number, so that a test that knows the number
//! can check the content of a store.

use std::collections::BTreeMap;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{Commit, Object, Store, Writer};
use elevo_objects::{Kind, Snapshot, SnapshotId, Tree};
use futures::executor::block_on;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

/// Returns commit number `n`: a snapshot with its nodes and chunks. Some
/// objects are large enough to be stored separately, and half of the objects
/// compress badly. The snapshot's message is the number.
pub fn numbered(n: u64) -> Commit {
    let mut random = SmallRng::seed_from_u64(n);
    let mut objects = Vec::new();
    for _ in 0..random.random_range(1..5) {
        let longest = [200, 5000, 60_000][random.random_range(0..3)];
        let length = random.random_range(0..longest);
        objects.push(object(Kind::Chunk, bytes(&mut random, length)));
    }
    for _ in 0..random.random_range(1..6) {
        let length = random.random_range(100..5000);
        objects.push(object(Kind::Directory, bytes(&mut random, length)));
    }
    let root = objects.last().map(|root| root.key.hash);
    let snapshot = Snapshot {
        tree: Tree {
            root,
            count: 1,
            bytes: 1,
        },
        times: None,
        parents: Vec::new(),
        author: "test".into(),
        message: n.to_string(),
        created: Timestamp::new(0, 0).unwrap(),
        labels: BTreeMap::new(),
    };
    Commit {
        objects,
        snapshots: vec![snapshot],
        ..Commit::default()
    }
}

/// Puts objects, and returns the writer for the commit that needs them.
pub fn put(store: &impl Store, tenant: TenantId, objects: Vec<Object>) -> Writer {
    let writer = block_on(store.writing(tenant)).unwrap();
    block_on(store.put(tenant, &writer, objects)).unwrap();
    writer
}

/// Returns the id of the snapshot in commit number `n`.
pub fn id(n: u64) -> SnapshotId {
    numbered(n).snapshots[0].encode().unwrap().0
}

/// Panics unless the store has all objects of commit number `n`, byte for byte.
pub fn assert_whole(store: &impl Store, tenant: TenantId, n: u64) {
    let Commit {
        objects, snapshots, ..
    } = numbered(n);
    let (id, _) = snapshots[0].encode().unwrap();
    let keys: Vec<_> = objects.iter().map(|object| object.key).collect();
    let found = block_on(store.snapshots(tenant, &[id])).unwrap();
    assert_eq!(
        found,
        [snapshots.into_iter().next()],
        "the snapshot of commit {n}"
    );
    let found = block_on(store.get(tenant, &keys)).unwrap();
    for (object, data) in objects.into_iter().zip(found) {
        assert!(
            data == Some(object.data),
            "{:?} of commit {n} is lost or wrong",
            object.key
        );
    }
}

/// Returns the numbers of all commits whose snapshots are in the store.
pub fn present(store: &impl Store, tenant: TenantId) -> Vec<u64> {
    let ids = block_on(store.list_snapshots(tenant, None, usize::MAX)).unwrap();
    let snapshots = block_on(store.snapshots(tenant, &ids)).unwrap();
    let message = |snapshot: Option<Snapshot>| snapshot.unwrap().message;
    snapshots
        .into_iter()
        .map(|snapshot| message(snapshot).parse().unwrap())
        .collect()
}

fn object(kind: Kind, data: Bytes) -> Object {
    Object {
        key: kind.key(&data),
        data,
    }
}

fn bytes(random: &mut SmallRng, length: usize) -> Bytes {
    let mut data = vec![0; length];
    random.fill_bytes(&mut data);
    if random.random() {
        // Data with few different bytes compresses to less than half.
        data.iter_mut().for_each(|byte| *byte = b'a' + *byte % 8);
    }
    data.into()
}
