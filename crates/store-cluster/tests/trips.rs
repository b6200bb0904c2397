//! The number of round trips of calls, to PostgreSQL and to S3.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{Commit, Object, Store};
use elevo_objects::{Kind, ObjectKey, Snapshot, Tree};
use elevo_store_cluster::ClusterStore;
use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;
use elevo_testkit::wire::Wire;
use support::{NEVER, options};

const TENANT: TenantId = TenantId::new([7; 16]);

/// A store on one connection, with a proxy in front of each server.
struct Counted {
    store: ClusterStore,
    sql: Wire,
    files: Wire,
    database: Database,
    s3: S3,
}

impl Counted {
    async fn open(inline_bytes: usize) -> Self {
        let (database, s3) = (support::database(), S3::new());
        let (sql, files) = (database.wire(), Wire::http(s3.address()));
        let mut options = options(&database, &s3);
        options.database = database.url_through(&sql);
        options.bucket.endpoint = Some(format!("http://{}", files.address()));
        options.inline_bytes = inline_bytes;
        options.connections = 1;
        // Nothing in the background.
        options.beat = NEVER;
        options.lease = NEVER;
        options.check = NEVER;
        options.upkeep = NEVER;
        let store = ClusterStore::open(options).await.unwrap();
        Self {
            store,
            sql,
            files,
            database,
            s3,
        }
    }

    /// A store of another process, whose trips are not counted.
    async fn other(&self, inline_bytes: usize) -> ClusterStore {
        let mut options = options(&self.database, &self.s3);
        options.inline_bytes = inline_bytes;
        ClusterStore::open(options).await.unwrap()
    }

    /// Returns the round trips of each call, to PostgreSQL and to S3.
    ///
    /// The pool checks its connection after each statement, when the caller has
    /// the result already. These trips are not counted: there is one for each
    /// statement.
    async fn trips(&self, mut work: impl AsyncFnMut(u64)) -> (u64, u64) {
        const CALLS: u64 = 4;
        // Prepares the statements.
        work(100).await;
        let waited = self.count().await;
        for n in 0..CALLS {
            work(n).await;
        }
        let after = self.count().await;
        let (sql, files) = (after.0 - waited.0, after.1 - waited.1);
        // The statement of `count` itself.
        assert_eq!((sql - 2) % (2 * CALLS), 0, "{sql}");
        ((sql - 2) / 2 / CALLS, files / CALLS)
    }

    /// The round trips so far, after those of a statement, which waits for the
    /// only connection.
    async fn count(&self) -> (u64, u64) {
        self.store.reference(TENANT, "any").await.unwrap();
        (self.sql.trips().trips, self.files.trips().trips)
    }
}

fn object(kind: Kind, data: impl Into<Bytes>) -> Object {
    let data = data.into();
    let key = kind.key(&data);
    Object { key, data }
}

fn objects(n: u64) -> Vec<Object> {
    let one = |i: usize| {
        object(
            [Kind::Chunk, Kind::Directory][i % 2],
            format!("{n}.{i}").repeat(99),
        )
    };
    (0..10).map(one).collect()
}

fn commit(n: u64) -> Commit {
    let objects = objects(n);
    let root = objects[1].key.hash;
    Commit {
        objects,
        snapshots: vec![Snapshot {
            tree: Tree {
                root: Some(root),
                count: 1,
                bytes: 1,
            },
            times: None,
            parents: Vec::new(),
            author: "trips".into(),
            message: n.to_string(),
            created: Timestamp::EPOCH,
            labels: Default::default(),
        }],
        ..Commit::default()
    }
}

#[tokio::test]
async fn a_small_commit_takes_one_trip() {
    let counted = Counted::open(256 << 10).await;
    let trips = counted.trips(async |n| {
        counted.store.commit(TENANT, commit(n)).await.unwrap();
    });
    assert_eq!(trips.await, (1, 0));
}

/// A lookup, a row for each file, a publication for each, and the commit. Nodes
/// and chunks are in two files.
#[tokio::test]
async fn a_large_commit_takes_a_trip_for_each_file_and_three_more() {
    let counted = Counted::open(0).await;
    let trips = counted.trips(async |n| {
        counted.store.commit(TENANT, commit(n)).await.unwrap();
    });
    assert_eq!(trips.await, (5, 2));
}

/// Each call reads other objects, of another commit.
#[tokio::test]
async fn any_number_of_objects_is_read_in_one_trip_and_a_request_for_each_file() {
    for (inline_bytes, files) in [(256 << 10, 0), (0, 2)] {
        let counted = Counted::open(inline_bytes).await;
        for n in [100, 0, 1, 2, 3] {
            counted.store.commit(TENANT, commit(n)).await.unwrap();
        }
        let read = async |n| {
            let keys: Vec<ObjectKey> = objects(n).iter().map(|object| object.key).collect();
            let found = counted.store.get(TENANT, &keys).await.unwrap();
            assert!(found.iter().all(Option::is_some));
        };
        assert_eq!(counted.trips(read).await, (1, files));
        assert_eq!(counted.trips(read).await, (0, 0), "the second time");
    }
}

#[tokio::test]
async fn a_writer_and_its_puts_take_no_trip() {
    let counted = Counted::open(256 << 10).await;
    let trips = counted.trips(async |n| {
        let writer = counted.store.writing(TENANT).await.unwrap();
        counted
            .store
            .put(TENANT, &writer, objects(n))
            .await
            .unwrap();
    });
    assert_eq!(trips.await, (0, 0));
}

#[tokio::test]
async fn a_hold_of_a_known_snapshot_takes_no_trip() {
    let counted = Counted::open(256 << 10).await;
    let made = counted.store.commit(TENANT, commit(1)).await.unwrap();
    let trips = counted.trips(async |_| {
        let held = counted.store.hold(TENANT, &made.ids).await.unwrap();
        assert_eq!(held.unwrap().snapshots, commit(1).snapshots);
    });
    assert_eq!(trips.await, (0, 0));
}

/// Each call opens another snapshot. Those of small commits come with their pack,
/// the others with the place of the root.
#[tokio::test]
async fn a_hold_of_an_unknown_snapshot_takes_the_trip_of_its_nodes_too() {
    for (inline_bytes, requests) in [(256 << 10, 0), (0, 1)] {
        let counted = Counted::open(inline_bytes).await;
        let other = counted.other(inline_bytes).await;
        for n in [100, 0, 1, 2, 3] {
            other.commit(TENANT, commit(n)).await.unwrap();
        }
        let trips = counted.trips(async |n| {
            let (id, _) = commit(n).snapshots[0].encode().unwrap();
            let held = counted.store.hold(TENANT, &[id]).await.unwrap();
            assert_eq!(held.unwrap().snapshots, commit(n).snapshots);
            for node in objects(n).into_iter().skip(1).step_by(2) {
                let found = counted.store.get(TENANT, &[node.key]).await.unwrap();
                assert_eq!(found[0].as_ref(), Some(&node.data));
            }
        });
        assert_eq!(trips.await, (1, requests));
    }
}
