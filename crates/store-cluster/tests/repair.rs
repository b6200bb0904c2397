//! Damaged and missing files in S3 are found, and repaired from another store.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, CommitInfo, Expected, Inspect, MemoryStore, Progress, RepairSource, Repository,
    StateTree, Store, VerifyOptions, repair, verify,
};
use elevo_objects::SnapshotId;
use elevo_store_cluster::ClusterStore;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use sqlx::{Connection, PgConnection};
use support::Place;

const TENANT: TenantId = TenantId::new([7; 16]);

fn path(n: usize) -> TreePath {
    TreePath::new(format!("d{}/f{n}", n % 5)).unwrap()
}

fn content(n: usize) -> Bytes {
    Bytes::from(format!("content {n} ").repeat(100 + n))
}

/// Makes the same snapshot in any store.
async fn fill(store: Arc<dyn Store>) -> SnapshotId {
    let repository = Repository::new(store, TENANT, 1 << 20);
    let tree = StateTree::empty(&repository);
    for n in 0..40 {
        let written = tree
            .write(&path(n), content(n), Attributes::default())
            .await;
        written.unwrap();
    }
    let info = CommitInfo {
        parents: Vec::new(),
        author: "test".into(),
        message: "forty files".into(),
        created: Timestamp::EPOCH,
        labels: Default::default(),
        reference: Some(("head".into(), Expected::Absent)),
    };
    tree.commit(info).await.unwrap()
}

async fn assert_reads(store: Arc<dyn Store>, id: SnapshotId) {
    let repository = Repository::new(store, TENANT, 1);
    let tree = StateTree::open(&repository, id).await.unwrap();
    for n in 0..40 {
        assert_eq!(tree.read(&path(n)).await.unwrap(), content(n));
    }
}

impl Place {
    async fn open(&self) -> Arc<ClusterStore> {
        let mut options = self.options();
        options.inline_bytes = 0;
        Arc::new(ClusterStore::open(options).await.unwrap())
    }

    /// The names of all files, the largest first.
    async fn files(&self) -> Vec<Path> {
        let mut connection = PgConnection::connect(&self.database.url()).await.unwrap();
        let names: Vec<String> = sqlx::query_scalar(
            "SELECT tenant || '/' || encode(key, 'hex') FROM store.files ORDER BY size DESC",
        )
        .fetch_all(&mut connection)
        .await
        .unwrap();
        let path = |name: &String| Path::from(format!("{}/{name}", self.s3.prefix));
        names.iter().map(path).collect()
    }
}

async fn is_whole(store: &Arc<ClusterStore>) -> bool {
    let (options, progress) = (VerifyOptions::default(), Progress::new());
    let verified = verify(store.as_ref(), TENANT, &options, &progress);
    verified.await.unwrap().is_whole()
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_missing_files_are_repaired_from_another_store() {
    let place = Place::new();
    let id = fill(place.open().await).await;
    let intact = Arc::new(MemoryStore::default());
    assert_eq!(fill(intact.clone()).await, id);
    let files = place.files().await;
    assert_eq!(files.len(), 2, "nodes and chunks are apart");
    let bucket = place.bucket();
    for (file, is_missing) in [(&files[0], false), (&files[1], true)] {
        match is_missing {
            true => bucket.delete(file).await.unwrap(),
            false => {
                let bytes = bucket.get(file).await.unwrap().bytes().await.unwrap();
                let mut bytes = bytes.to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                bucket.put(file, PutPayload::from(bytes)).await.unwrap();
            }
        }
    }
    let store = place.open().await;
    assert!(!is_whole(&store).await);
    let repairing = tokio::task::spawn_blocking({
        let (store, intact) = (store.clone(), intact.clone());
        move || {
            let store: Arc<dyn Inspect> = store;
            let sources = [RepairSource::Store(intact.as_ref())];
            let options = VerifyOptions::default();
            repair(&store, TENANT, &sources, &options, &Progress::new()).unwrap()
        }
    });
    let repaired = repairing.await.unwrap();
    assert!(repaired.mended > 1, "{repaired:?}");
    assert!(repaired.after.is_whole(), "{repaired:?}");
    assert_reads(place.open().await, id).await;
    // The file that is missing, and those of the repair.
    let compared = store.compare_files().await.unwrap();
    assert_eq!(compared.unknown, 0, "{compared:?}");
}
