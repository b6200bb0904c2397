//! Two processes' handles of one store as one store: each call goes to the other
//! handle than the one before, where that is possible. A writer, and the objects
//! that it has put, belong to one handle.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{
    Collection, Commit, Committed, GcScope, Held, Object, Recent, Store, StoreResult, Writer,
    WriterId,
};
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};
use parking_lot::Mutex;

/// The handles, and the writers of the first one that are registered.
pub(crate) struct Alternating {
    handles: [Box<dyn Store>; 2],
    turn: AtomicUsize,
    writers: Arc<Mutex<HashMap<WriterId, Arc<Writer>>>>,
}

struct Registered {
    id: WriterId,
    writers: Arc<Mutex<HashMap<WriterId, Arc<Writer>>>>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.writers.lock().remove(&self.id);
    }
}

impl Alternating {
    pub(crate) fn new(handles: [Box<dyn Store>; 2]) -> Self {
        Self {
            handles,
            turn: AtomicUsize::new(0),
            writers: Arc::default(),
        }
    }

    fn any(&self) -> &dyn Store {
        &*self.handles[self.turn.fetch_add(1, Ordering::Relaxed) % 2]
    }

    /// The handle for reads, which must find the objects of registered writers.
    fn reader(&self) -> &dyn Store {
        match self.writers.lock().is_empty() {
            true => self.any(),
            false => &*self.handles[0],
        }
    }
}

#[async_trait]
impl Store for Alternating {
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        self.reader().get(tenant, keys).await
    }

    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.reader().contains(tenant, keys).await
    }

    async fn put(
        &self,
        tenant: TenantId,
        writer: &Writer,
        objects: Vec<Object>,
    ) -> StoreResult<()> {
        self.handles[0].put(tenant, writer, objects).await
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        match commit.after.is_empty() {
            true => self.any().commit(tenant, commit).await,
            false => self.handles[0].commit(tenant, commit).await,
        }
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        self.any().snapshots(tenant, ids).await
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        self.any().list_snapshots(tenant, after, limit).await
    }

    async fn snapshots_since(
        &self,
        tenant: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let page = self.any().snapshots_since(tenant, recent, after, limit);
        page.await
    }

    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        self.any().reference(tenant, name).await
    }

    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        let page = self.any().list_references(tenant, prefix, after, limit);
        page.await
    }

    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        self.any().stored_bytes(tenant).await
    }

    async fn writing(&self, tenant: TenantId) -> StoreResult<Writer> {
        let writer = Arc::new(self.handles[0].writing(tenant).await?);
        let id = writer.id();
        self.writers.lock().insert(id, writer);
        let writers = self.writers.clone();
        Ok(Writer::new(id, Registered { id, writers }))
    }

    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>> {
        self.any().hold(tenant, snapshots).await
    }

    async fn collection(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>> {
        self.any().collection(tenant, scope).await
    }
}
