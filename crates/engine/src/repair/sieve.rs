//! An import that stores only wanted objects.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};

use crate::blocking::Workers;
use crate::error::Result;
use crate::guards::Guard;
use crate::import::{ImportOptions, import};
use crate::inspect::{Inspect, Mend};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::state::CommitInfo;
use crate::store::{Collection, Commit, Committed, Depth, Object, Store, StoreError, StoreResult};

/// Small, since an import creates nodes and never reads any.
const CACHE_BYTES: u64 = 1 << 20;

/// Passes wanted objects on to a store and ignores the others.
pub(super) struct Sieve {
    below: Arc<dyn Inspect>,
    wanted: HashSet<ObjectKey>,
    found: Mutex<HashSet<ObjectKey>>,
}

impl Sieve {
    pub(super) fn new(below: Arc<dyn Inspect>, wanted: HashSet<ObjectKey>) -> Arc<Self> {
        Arc::new(Self {
            below,
            wanted,
            found: Mutex::default(),
        })
    }

    /// Imports a directory, and returns the keys that were passed on.
    pub(super) fn read(
        self: Arc<Self>,
        tenant: TenantId,
        directory: &Path,
        options: &ImportOptions,
        progress: &Progress,
        workers: &Workers,
    ) -> Result<HashSet<ObjectKey>> {
        let repository = Repository::new(self.clone(), tenant, CACHE_BYTES);
        let imported = import(&repository, directory, options, progress)?;
        workers.wait(imported.commit(&repository, nobody()))?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut found))
    }
}

/// Metadata for a snapshot that is never stored.
fn nobody() -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: String::new(),
        message: String::new(),
        created: Timestamp::EPOCH,
        labels: BTreeMap::new(),
        reference: None,
    }
}

#[async_trait]
impl Store for Sieve {
    async fn put(&self, tenant: TenantId, objects: Vec<Object>) -> StoreResult<()> {
        let is_wanted = |object: &Object| self.wanted.contains(&object.key);
        let objects: Vec<_> = objects.into_iter().filter(is_wanted).collect();
        if objects.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = objects.iter().map(|object| object.key).collect();
        let mend = Mend {
            objects,
            ..Mend::default()
        };
        self.below.mend(tenant, mend).await?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.extend(keys);
        Ok(())
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        let held = self.below.writing(tenant).await?;
        self.put(tenant, commit.objects).await?;
        let ids = Vec::new();
        Ok(Committed { ids, held })
    }

    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        self.below.get(tenant, keys).await
    }

    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.below.contains(tenant, keys).await
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        self.below.snapshots(tenant, ids).await
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        self.below.list_snapshots(tenant, after, limit).await
    }

    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        self.below.reference(tenant, name).await
    }

    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        self.below
            .list_references(tenant, prefix, after, limit)
            .await
    }

    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        self.below.stored_bytes(tenant).await
    }

    async fn writing(&self, tenant: TenantId) -> StoreResult<Guard> {
        self.below.writing(tenant).await
    }

    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Guard>> {
        self.below.hold(tenant, snapshots).await
    }

    async fn collection(&self, _: TenantId, _: Depth) -> StoreResult<Box<dyn Collection + '_>> {
        Err(StoreError::ReadOnly)
    }
}
