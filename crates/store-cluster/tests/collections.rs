//! Commits during a collection that bring objects which are stored already.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{Commit, GcScope, Object, Store};
use elevo_objects::{Kind, ObjectKey};
use elevo_store_cluster::ClusterStore;
use elevo_testkit::wait::until_async;
use sqlx::{Connection, PgConnection};
use support::Place;

const TENANT: TenantId = TenantId::new([7; 16]);

const LOCK: &str = "SELECT count(*) FROM (SELECT FROM store.objects FOR UPDATE) AS locked";

/// A commit of the same object and a new one.
fn commit(new: &'static str) -> (ObjectKey, Commit) {
    let object = |content: &'static str| Object {
        key: Kind::Chunk.key(content.as_bytes()),
        data: Bytes::from_static(content.as_bytes()),
    };
    let commit = Commit {
        objects: vec![object("the same"), object(new)],
        ..Commit::default()
    };
    (commit.objects[0].key, commit)
}

impl Place {
    async fn open(&self) -> Arc<ClusterStore> {
        Arc::new(ClusterStore::open(self.options()).await.unwrap())
    }

    async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.database.url()).await.unwrap()
    }
}

/// Agents that work on copies of a tree write many equal objects.
#[tokio::test]
async fn commits_with_common_objects_do_not_wait_for_each_other() {
    let place = Place::new();
    let store = place.open().await;
    store.commit(TENANT, commit("first").1).await.unwrap();
    let _collection = store.collection(TENANT, GcScope::Full).await.unwrap();
    // Says that the collection has seen the object.
    store.commit(TENANT, commit("second").1).await.unwrap();
    let mut other = place.connect().await;
    let mut other = other.begin().await.unwrap();
    let add = "SELECT store.add_objects_1(tenant, 1, number, phase, array_agg(hash), array_agg(kind), \
               array_agg(start), array_agg(size)) FROM store.gc JOIN store.objects USING (tenant) \
               WHERE seen = number GROUP BY tenant, number, phase";
    let added: i32 = sqlx::query_scalar(add)
        .fetch_one(&mut *other)
        .await
        .unwrap();
    assert_eq!(added, 0, "all of them are stored");
    store.commit(TENANT, commit("third").1).await.unwrap();
    other.rollback().await.unwrap();
}

/// The sweep locks objects, and then deletes them.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_deleted_during_a_commit_is_stored_again() {
    let place = Place::new();
    let store = place.open().await;
    let (key, first) = commit("first");
    store.commit(TENANT, first).await.unwrap();
    let _collection = store.collection(TENANT, GcScope::Full).await.unwrap();
    let mut sweep = place.connect().await;
    let mut sweep = sweep.begin().await.unwrap();
    let locked: i64 = sqlx::query_scalar(LOCK)
        .fetch_one(&mut *sweep)
        .await
        .unwrap();
    assert_eq!(locked, 2);
    let committing = tokio::spawn({
        let store = store.clone();
        async move { store.commit(TENANT, commit("second").1).await }
    });
    let mut watch = place.connect().await;
    let waits = "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) \
                 WHERE NOT granted AND datname = current_database())";
    until_async("the commit waits for the object", async || {
        let waits = sqlx::query_scalar(waits).fetch_one(&mut watch);
        let waits: bool = waits.await.unwrap();
        waits.then_some(())
    })
    .await;
    let delete = sqlx::query("DELETE FROM store.objects WHERE seen = 0");
    assert_eq!(
        delete.execute(&mut *sweep).await.unwrap().rows_affected(),
        2
    );
    sweep.commit().await.unwrap();
    committing.await.unwrap().unwrap();
    let found = place.open().await.get(TENANT, &[key]).await.unwrap();
    assert!(found[0].is_some());
}
