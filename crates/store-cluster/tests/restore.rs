//! A database that is restored to an earlier moment, with the bucket as it is.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, CommitInfo, GcOptions, GcProgress, GcRoot, GcRun, GcScope, Progress, Repository,
    StateTree, Store, StoreError, Verified, VerifyOptions, verify,
};
use elevo_objects::SnapshotId;
use elevo_store_cluster::{BundleOptions, ClusterStore, OpenError, Options};
use elevo_testkit::postgres_server::Server;
use elevo_testkit::s3::S3;
use elevo_testkit::wait::until_async;
use support::{NEVER, options_at};
use tokio::time::sleep;

const TENANT: TenantId = TenantId::new([7; 16]);
/// It begins after the moment.
const LATER: TenantId = TenantId::new([8; 16]);

/// Everything moves into the bucket when a test says so, and unused files stay
/// there for an hour.
fn options(server: &Server, s3: &S3) -> Options {
    Options {
        // A collection waits for the nodes that the moment knows.
        lease: Duration::from_secs(4),
        upkeep: NEVER,
        grace: Duration::from_secs(3600),
        bundle: BundleOptions {
            age: Duration::ZERO,
            bytes: 0,
            oldest: Duration::ZERO,
        },
        ..options_at(server.url(), s3)
    }
}

async fn open(options: &Options) -> Arc<ClusterStore> {
    Arc::new(ClusterStore::open(options.clone()).await.unwrap())
}

/// Commits a tree with a small file and perhaps a large one.
async fn commit(
    store: &Arc<ClusterStore>,
    tenant: TenantId,
    seed: u64,
    large: usize,
) -> Result<SnapshotId, elevo_engine::Error> {
    let repository = Repository::new(store.clone(), tenant, 0);
    let tree = StateTree::empty(&repository);
    let files = [("small", 100), ("a/large", large)];
    for (at, length) in files.into_iter().filter(|(_, length)| *length > 0) {
        let bytes = (0..length as u64).map(|n| ((n * n * (2 * seed + 1)) >> 7) as u8);
        let bytes: Bytes = bytes.collect();
        let path = TreePath::new(at).unwrap();
        tree.write(&path, bytes, Attributes::default()).await?;
    }
    let info = CommitInfo {
        parents: Vec::new(),
        author: "tester".into(),
        message: format!("{seed}"),
        created: Timestamp::EPOCH,
        labels: BTreeMap::new(),
        reference: None,
    };
    tree.commit(info).await
}

/// Deletes all snapshots but these, and dooms the files that nothing needs any
/// more.
async fn collect(store: &Arc<ClusterStore>, kept: &[SnapshotId]) -> u64 {
    let repository = Repository::new(store.clone(), TENANT, 0);
    let options = GcOptions {
        scope: GcScope::Full,
        dry_run: false,
        keep_recent: None,
    };
    let progress = GcProgress::default();
    let mut run = GcRun::begin(&repository, &options, &progress)
        .await
        .unwrap();
    while run.older_writers().await.unwrap() > 0 {
        sleep(Duration::from_millis(5)).await;
    }
    let root = |id: &SnapshotId| GcRoot {
        snapshot: *id,
        history: false,
    };
    run.roots(kept.iter().map(root)).await.unwrap();
    let report = run.finish().await.unwrap();
    store.clean().await.unwrap();
    report.snapshots_removed
}

/// Reads everything, and returns the snapshots.
async fn assert_whole(store: &Arc<ClusterStore>) -> Vec<SnapshotId> {
    let options = VerifyOptions::default();
    let found: Verified = verify(store.as_ref(), TENANT, &options, &Progress::new())
        .await
        .unwrap();
    assert!(found.is_whole(), "{found:?}");
    store.list_snapshots(TENANT, None, 1000).await.unwrap()
}

fn sorted(ids: &[SnapshotId]) -> Vec<SnapshotId> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_database_has_every_snapshot_of_its_moment() {
    let mut server = Server::start();
    let s3 = S3::new();
    let options = options(&server, &s3);
    let old = open(&options).await;

    // Before the backup, between backup and moment: in files of their own, in
    // bundles, and in the database.
    let mut before = Vec::new();
    for (seed, large) in [(1, 700_000), (2, 0), (3, 0)] {
        before.push(commit(&old, TENANT, seed, large).await.unwrap());
    }
    assert_eq!(old.bundle().await.unwrap(), 1);
    let backup = server.back_up();
    before.push(commit(&old, TENANT, 4, 0).await.unwrap());
    assert_eq!(old.bundle().await.unwrap(), 1);
    for (seed, large) in [(5, 700_000), (6, 0), (7, 0)] {
        before.push(commit(&old, TENANT, seed, large).await.unwrap());
    }
    let kept = before[2];
    server.name_moment("before");

    // The future that is abandoned: packs move, all but one of the snapshots go
    // with their files, and new ones come.
    assert_eq!(old.bundle().await.unwrap(), 1);
    let after = commit(&old, TENANT, 8, 700_000).await.unwrap();
    commit(&old, LATER, 9, 700_000).await.unwrap();
    assert_eq!(collect(&old, &[kept, after]).await, 6);
    assert_eq!(sorted(&assert_whole(&old).await), sorted(&[kept, after]));
    let of_the_future = open(&options).await;
    commit(&of_the_future, TENANT, 10, 0).await.unwrap();
    let files = old.compare_files().await.unwrap().files;

    server.restore(backup, "before");

    // Processes that still run end, rather than use what they remember.
    for stale in [&old, &of_the_future] {
        until_async("a stale process is lost", async || {
            let lost = stale.writing(TENANT).await;
            matches!(lost, Err(StoreError::Lost)).then_some(())
        })
        .await;
        let commit = commit(stale, TENANT, 11, 0).await;
        let is_lost = matches!(commit, Err(elevo_engine::Error::Store(StoreError::Lost)));
        assert!(is_lost, "{commit:?}");
    }

    // A later state of the database has used the bucket.
    let refused = ClusterStore::open(options.clone()).await;
    assert!(
        matches!(refused, Err(OpenError::OlderDatabase { .. })),
        "{refused:?}"
    );
    let new = open(&Options {
        adopts: true,
        ..options.clone()
    })
    .await;
    assert_eq!(assert_whole(&new).await, sorted(&before));
    assert!(new.list_snapshots(LATER, None, 1).await.unwrap().is_empty());
    let compared = new.compare_files().await.unwrap();
    assert_eq!(
        (compared.files, compared.missing),
        (files, 0),
        "{compared:?}"
    );
    let unknown = compared.unknown;
    assert!(unknown > 0, "{compared:?}");

    // It works on, and keeps the files of the abandoned future.
    let mut all = before.clone();
    for (seed, large) in [(8, 700_000), (12, 700_000), (13, 0)] {
        all.push(commit(&new, TENANT, seed, large).await.unwrap());
    }
    new.bundle().await.unwrap();
    assert_eq!(assert_whole(&new).await, sorted(&all));
    let again = open(&Options {
        grace: Duration::ZERO,
        ..options
    })
    .await;
    assert_eq!(collect(&again, &all[3..]).await, 3);
    let left = sorted(&all[3..]);
    assert_eq!(assert_whole(&again).await, left);
    assert_eq!(assert_whole(&new).await, left);
    let compared = again.compare_files().await.unwrap();
    assert_eq!(
        (compared.missing, compared.unknown),
        (0, unknown),
        "{compared:?}"
    );
}
