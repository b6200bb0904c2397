//! The suite that every store must pass: at least one check for each promise of
//! [`Store`].
//!
//! ```ignore
//! elevo_engine::conformance_tests!(|| Box::new(MemoryStore::new()));
//! ```
//!
//! gives one `#[test]` per check, each on a new store, which must be empty. The
//! argument returns any value that dereferences to a store, so the value can
//! own a directory or a server as well. Checks panic when they fail.
//!
//! Every check runs in a Tokio runtime with several threads, so a store may use
//! sockets and timers. The crate with the tests depends on `tokio` with the
//! feature `rt-multi-thread`.

mod collections;
mod commits;
mod inspection;
mod model;
mod objects;
mod references;
mod writers;

use std::collections::BTreeMap;
use std::ops::Deref;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_objects::{Hash, Kind, ObjectKey, Snapshot, SnapshotId, Tree};
use tokio::runtime::Handle;

pub use collections::*;
pub use commits::*;
pub use inspection::*;
pub use model::*;
pub use objects::*;
pub use references::*;
pub use writers::*;

use crate::guards::Writer;
use crate::store::{Commit, Expected, Object, ReferenceUpdate, Store, StoreError, StoreResult};

/// Expands to one test per check of [`conformance`](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_tests! {
            @each $make;
            nothing_crosses_tenants
            results_keep_the_order_of_the_keys
            a_put_object_can_be_read_at_once
            a_commit_makes_the_objects_of_the_writers_that_it_names_durable
            a_failed_commit_can_name_its_writers_again
            a_commit_that_names_an_ended_writer_is_refused
            each_writer_has_its_own_id
            an_empty_store_has_nothing
            putting_an_object_again_changes_nothing
            an_object_is_found_only_as_the_kind_it_was_put_as
            a_snapshot_is_not_put_as_an_object
            empty_calls_succeed
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
            one_of_several_commits_that_expect_the_same_value_wins
            a_removed_reference_is_gone
            names_that_no_reference_can_have_are_refused
            snapshots_are_listed_in_pages
            recent_snapshots_are_listed_in_pages
            references_are_listed_in_pages
            references_are_listed_by_prefix
            a_full_collection_deletes_unmarked_objects
            objects_written_or_found_during_a_collection_stay
            objects_put_during_the_sweep_stay
            a_held_snapshot_arrives_at_collections
            a_hold_returns_the_records_of_its_snapshots
            a_collection_counts_older_writers
            a_commit_of_an_older_writer_arrives_at_the_collection
            a_commit_holds_its_snapshots
            an_interrupted_collection_deletes_nothing
            a_young_collection_keeps_earlier_marks
            stored_bytes_grow_with_objects_and_fall_with_garbage
            random_calls_give_the_results_of_the_memory_store
        }
    };
    (@each $make:expr; $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                let runtime = ::tokio::runtime::Runtime::new().expect("a runtime");
                $crate::conformance::run(runtime.handle(), $make, async |store| {
                    $crate::conformance::$check(store).await
                });
            }
        )*
    };
}

/// Runs one check on a new store. The runtime must have its own threads: some
/// checks block this thread while other threads wait for the store.
pub fn run<T: Deref<Target: Store + Sized>>(
    runtime: &Handle,
    make: impl Fn() -> T,
    check: impl AsyncFn(&T::Target),
) {
    // The store is also created and dropped inside the runtime.
    let _inside = runtime.enter();
    let store = make();
    runtime.block_on(check(&store));
}

const ALICE: TenantId = TenantId::new([0xa1; 16]);
/// The last tenant in byte order.
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

/// A snapshot of the empty tree, for checks to which the tree does not matter.
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

fn of_writers(writers: &[&Writer]) -> Commit {
    Commit {
        after: writers.iter().map(|writer| writer.id()).collect(),
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

/// Puts objects, and makes them durable.
async fn put(store: &impl Store, objects: &[&Object]) {
    let objects = objects.iter().map(|object| (*object).clone()).collect();
    put_for(store, ALICE, objects).await;
}

async fn put_for(store: &impl Store, tenant: TenantId, objects: Vec<Object>) {
    let writer = put_ahead(store, tenant, objects).await;
    let commit = store.commit(tenant, of_writers(&[&writer])).await;
    commit.expect("commit");
}

/// Puts objects, and returns the writer for the commit that needs them.
async fn put_ahead(store: &impl Store, tenant: TenantId, objects: Vec<Object>) -> Writer {
    let writer = store.writing(tenant).await.expect("a writer");
    store.put(tenant, &writer, objects).await.expect("put");
    writer
}

async fn commit(store: &impl Store, commit: Commit) -> Vec<SnapshotId> {
    store.commit(ALICE, commit).await.expect("commit").ids
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
