//! Tests of changes that share a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_objects::{Hash, SnapshotId};
use elevo_testkit::wait::until_async;
use futures::future::join_all;
use serde_json::json;

use super::file::HASTY;
use super::{Temporary, id_of};
use crate::conformance::Backend;
use crate::error::Error;
use crate::records::{
    EventQuery, Landing, LandingKind, PathChange, Project, Retention, Step, Tenant, VersionKind,
};
use crate::sqlite::SqliteCatalog;

async fn setting(catalog: &SqliteCatalog, name: &str) -> bool {
    catalog.setting(name).await.unwrap().is_some()
}

/// Runs changes concurrently. The caller has the writer, so that they wait.
async fn waiting<T>(changes: usize, change: impl AsyncFn(usize) -> T) -> Vec<T> {
    join_all((0..changes).map(|n| change(n))).await
}

#[tokio::test]
async fn waiting_changes_are_synced_together() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = commits.clone();
    let mut write = catalog.database.write().await.unwrap();
    let mut handle = write.lock_handle().await.unwrap();
    handle.set_commit_hook(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        true
    });
    drop(handle);
    let set = async |n: usize| catalog.set_setting(&format!("s{n}"), "x").await.unwrap();
    let (_, committed) = tokio::join!(waiting(20, set), write.commit());
    committed.unwrap();
    assert_eq!(commits.load(Ordering::SeqCst), 1);
    for n in 0..20 {
        assert!(setting(&catalog, &format!("s{n}")).await, "{n}");
    }
    catalog.set_setting("one", "more").await.unwrap();
    assert_eq!(commits.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_dropped_change_rolls_back_only_itself() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    let first = catalog.database.write().await.unwrap();
    let change = async |n: usize| {
        let mut write = catalog.database.write().await.unwrap();
        let insert = sqlx::query("INSERT INTO settings (name, value) VALUES (?, 'x')");
        let insert = insert.bind(format!("s{n}")).execute(&mut *write).await;
        insert.unwrap();
        if n.is_multiple_of(2) {
            write.commit().await.unwrap();
        }
    };
    tokio::join!(waiting(9, change), async { drop(first) });
    for n in 0..9 {
        let there = setting(&catalog, &format!("s{n}")).await;
        assert_eq!(there, n % 2 == 0, "{n}");
    }
}

/// Simulates a full disk, on which SQLite rolls back the whole transaction.
#[tokio::test]
async fn a_lost_transaction_fails_all_its_changes() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    let first = catalog.database.write().await.unwrap();
    let change = async |n: usize| {
        if n != 3 {
            return catalog.set_setting(&format!("s{n}"), "x").await;
        }
        let mut write = catalog.database.write().await?;
        sqlx::query("ROLLBACK").execute(&mut *write).await.unwrap();
        Ok(())
    };
    let (done, _) = tokio::join!(waiting(6, change), async { drop(first) });
    for (n, done) in done.into_iter().enumerate().filter(|(n, _)| *n != 3) {
        let there = setting(&catalog, &format!("s{n}")).await;
        assert_eq!(there, done.is_ok(), "{n}: {done:?}");
        assert_eq!(there, n > 3, "{n}: {done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_change_at_any_moment_does_not_affect_others() {
    let temporary = Temporary::new();
    let catalog = Arc::new(temporary.open().await);
    for round in 0..64 {
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let catalog = catalog.clone();
                let name = format!("r{round}-{n}");
                tokio::spawn(async move { catalog.set_setting(&name, "x").await })
            })
            .collect();
        // Aborts at another moment in each round: after some changes have
        // ended, and some time later.
        let count_ended = || tasks.iter().filter(|task| task.is_finished()).count();
        while count_ended() < round % 8 {
            tokio::task::yield_now().await;
        }
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        for leaving in tasks.iter().step_by(2) {
            leaving.abort();
        }
        for (n, task) in tasks.into_iter().enumerate() {
            match task.await {
                Ok(set) => {
                    set.unwrap();
                    assert!(setting(&catalog, &format!("r{round}-{n}")).await);
                }
                Err(error) => assert!(error.is_cancelled()),
            }
        }
    }
    // No transaction is left open: another process that hardly waits can write.
    let other = SqliteCatalog::open(&temporary.file(), &HASTY)
        .await
        .unwrap();
    let set = until_async("the catalog is not busy", async || {
        let set = other.set_setting("a", "b").await;
        (!matches!(set, Err(Error::Busy))).then_some(set)
    });
    set.await.unwrap();
}

const NOW: Timestamp = Timestamp::new(100, 0).unwrap();

fn snapshot(n: u8) -> SnapshotId {
    SnapshotId(Hash::from_bytes([n; 32]))
}

/// A landing with this many changes, on a new project.
async fn landing(catalog: &SqliteCatalog, id: &str, changes: u64) -> Landing {
    let project = Project {
        id: id_of(id),
        tenant: TenantId::LOCAL,
        name: id.into(),
        description: None,
        head: snapshot(0),
        sequence: 0,
        policy_version: 0,
        retention: Retention::All,
        created: NOW,
        updated: NOW,
        removing: false,
    };
    catalog.add_project(&project, &json!({})).await.unwrap();
    let change = |n| PathChange {
        path: TreePath::new(format!("directory/file-{n}")).unwrap(),
        kind: VersionKind::Removed,
        from: None,
        before: None,
        after: None,
        files: 1,
        algorithm: "take".into(),
    };
    let step = Step {
        kind: LandingKind::Merge,
        snapshot: snapshot(1),
        agent: None,
        workspace: None,
        key: id_of("key-1"),
        message: String::new(),
        request: None,
        counts: json!({}),
        changes: (0..changes).map(change).collect(),
        reviews: vec![],
        opens: vec![],
        base: None,
    };
    Landing {
        tenant: TenantId::LOCAL,
        project: project.id,
        expected_head: snapshot(0),
        expected_policy: 0,
        steps: vec![step],
        now: NOW,
    }
}

#[tokio::test]
async fn small_changes_come_between_large_ones() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    let tenant = Tenant::new(TenantId::LOCAL, "local", NOW);
    catalog.add_tenant(&tenant).await.unwrap();
    let mut landings = Vec::new();
    for (id, changes) in [
        ("prj-a", 5001),
        ("prj-b", 5001),
        ("prj-c", 5001),
        ("prj-d", 1),
        ("prj-e", 1),
    ] {
        landings.push(landing(&catalog, id, changes).await);
    }
    let turn = catalog.database.write().await.unwrap();
    // All landings wait for the writer, with the large ones first in the queue.
    let landing = landings.iter().map(|landing| catalog.land(landing));
    let (landed, ()) = tokio::join!(join_all(landing), async { drop(turn) });
    landed.into_iter().for_each(|landed| drop(landed.unwrap()));
    // Events are numbered in the order in which they are written.
    let query = EventQuery {
        limit: 10,
        ..EventQuery::default()
    };
    let events = catalog.events(&query).await.unwrap();
    let order: Vec<_> = events.iter().map(|event| &*event.event.subject).collect();
    assert_eq!(order, ["prj-a", "prj-d", "prj-e", "prj-b", "prj-c"]);
}
