//! A store moves from RocksDB into a cluster and back.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, Commit, CommitInfo, Committed, Copied, CopyOptions, Error, Expected, Inspect,
    Object, Progress, ReferenceUpdate, Repository, StateTree, Store, StoreError, StoreLayer,
    StoreResult, VerifyOptions, Writer, check_copy, copy_tenant, verify,
};
use elevo_objects::{Snapshot, SnapshotId};
use elevo_store_cluster::ClusterStore;
use elevo_store_local::{LocalStore, Options};
use elevo_testkit::s3::S3;
use support::options;

const TENANTS: [TenantId; 2] = [TenantId::new([1; 16]), TenantId::new([2; 16])];

fn create(path: &Path) -> Arc<LocalStore> {
    Arc::new(LocalStore::create(path, &Options::default()).unwrap())
}

fn noise(seed: u64, length: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

async fn write(tree: &StateTree, at: &str, seed: u64, length: usize) {
    let attributes = Attributes {
        mode: None,
        modified: Timestamp::new(seed as i64, 0),
    };
    let path = TreePath::new(at).unwrap();
    let written = tree.write(&path, noise(seed, length), attributes);
    written.await.unwrap();
}

/// Adds a history with small and large commits, of which some have refs.
async fn fill(store: &Arc<LocalStore>, tenant: TenantId, seed: u64) {
    let repository = Repository::new(store.clone(), tenant, 1 << 20);
    let tree = StateTree::empty(&repository);
    for n in 0..300 {
        write(&tree, &format!("d{}/file{n}", n % 20), seed + n, 200).await;
    }
    write(&tree, "large", seed, 3_000_000).await;
    let mut last = None;
    for round in 0..30 {
        write(&tree, &format!("d5/new{round}"), seed + round, 5000).await;
        let info = CommitInfo {
            parents: last.into_iter().collect(),
            author: "tester".into(),
            message: format!("round {round}"),
            created: Timestamp::new(1_700_000_000 + round as i64, 5).unwrap(),
            labels: BTreeMap::new(),
            reference: None,
        };
        let id = tree.commit(info).await.unwrap();
        last = Some(id);
        if round % 7 == 0 {
            let update = ReferenceUpdate {
                name: format!("tag{round}"),
                expected: Expected::Absent,
                target: Some(id),
            };
            let commit = Commit {
                references: vec![update],
                ..Commit::default()
            };
            store.commit(tenant, commit).await.unwrap();
        }
    }
}

type References = Vec<(String, SnapshotId)>;

async fn content(store: &dyn Store, tenant: TenantId) -> (Vec<Snapshot>, References) {
    let ids = store.list_snapshots(tenant, None, 10_000).await.unwrap();
    let snapshots = store.snapshots(tenant, &ids).await.unwrap();
    let references = store.list_references(tenant, "", None, 10_000).await;
    let snapshots = snapshots.into_iter().map(|found| found.unwrap());
    (snapshots.collect(), references.unwrap())
}

/// Checks that two stores are equal, in all ways that there are.
async fn assert_equal(source: &dyn Store, target: &dyn Inspect) {
    for tenant in TENANTS {
        assert_eq!(content(source, tenant).await, content(target, tenant).await);
        let (options, progress) = (CopyOptions::default(), Progress::new());
        let checked = check_copy(source, target, tenant, &options, &progress);
        let checked = checked.await.unwrap();
        assert!(checked.is_whole(), "{checked:?}");
        let options = VerifyOptions::default();
        let verified = verify(target, tenant, &options, &progress);
        let verified = verified.await.unwrap();
        assert!(verified.is_whole(), "{verified:?}");
        assert_eq!(verified.objects, checked.objects_read);
    }
}

async fn copy(source: &dyn Store, target: &dyn Store, tenant: TenantId) -> Result<Copied, Error> {
    let options = CopyOptions {
        commit_bytes: 500_000,
        ..CopyOptions::default()
    };
    copy_tenant(source, target, tenant, &options, &Progress::new()).await
}

/// A store that fails after a number of changes.
struct CutOff<'a>(&'a dyn Store, AtomicI64);

impl CutOff<'_> {
    fn step(&self) -> StoreResult<()> {
        match self.1.fetch_sub(1, Ordering::Relaxed) {
            1.. => Ok(()),
            _ => Err(StoreError::Unavailable("cut off".into())),
        }
    }
}

#[async_trait]
impl StoreLayer for CutOff<'_> {
    fn below(&self) -> &dyn Store {
        self.0
    }

    async fn put(
        &self,
        tenant: TenantId,
        writer: &Writer,
        objects: Vec<Object>,
    ) -> StoreResult<()> {
        self.step()?;
        self.0.put(tenant, writer, objects).await
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        self.step()?;
        self.0.commit(tenant, commit).await
    }
}

/// Copies with interruptions, and returns the number of objects that were sent
/// by the last run.
async fn copy_in_parts(source: &dyn Store, target: &dyn Store, tenant: TenantId) -> u64 {
    for changes in [1, 4, 10] {
        let copied = copy(source, &CutOff(target, changes.into()), tenant).await;
        let is_cut = matches!(copied, Err(Error::Store(StoreError::Unavailable(_))));
        assert!(is_cut, "{copied:?}");
    }
    let copied = copy(source, target, tenant).await.unwrap();
    assert!(copied.is_whole(), "{copied:?}");
    copied.objects_sent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_moves_into_the_cluster_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let source = create(&directory.path().join("source"));
    for (tenant, seed) in TENANTS.into_iter().zip([1, 1000]) {
        fill(&source, tenant, seed).await;
    }
    assert_eq!(source.tenants().unwrap(), TENANTS);

    let database = support::database();
    let s3 = S3::new();
    let cluster = ClusterStore::open(options(&database, &s3)).await.unwrap();
    for tenant in TENANTS {
        copy_in_parts(source.as_ref(), &cluster, tenant).await;
    }
    cluster.close().await.unwrap();
    drop(cluster);

    let cluster = ClusterStore::open(options(&database, &s3)).await.unwrap();
    assert_eq!(cluster.tenants().await.unwrap(), TENANTS);
    assert_equal(source.as_ref(), &cluster).await;
    for tenant in TENANTS {
        let again = copy(source.as_ref(), &cluster, tenant).await.unwrap();
        assert!(again.has_sent_nothing(), "{again:?}");
    }

    let back = create(&directory.path().join("back"));
    for tenant in TENANTS {
        let sent = copy_in_parts(&cluster, back.as_ref(), tenant).await;
        // The other objects were there after the interruptions.
        let (options, progress) = (CopyOptions::default(), Progress::new());
        let all = check_copy(&cluster, back.as_ref(), tenant, &options, &progress);
        assert!(sent < all.await.unwrap().objects_read);
    }
    assert_equal(source.as_ref(), back.as_ref()).await;
    cluster.close().await.unwrap();
}
