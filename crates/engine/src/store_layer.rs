//! Stores on top of other stores.

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};

use crate::guards::Writer;
use crate::store::{
    Collection, Commit, Committed, GcScope, Held, Object, Recent, Store, StoreResult,
};

/// A [`Store`] that changes some calls of another store. Every layer is a
/// `Store`: an implementation names the store below it and overrides the calls
/// that it changes, and all other calls go to the store below.
///
/// A separate trait, since defaults in `Store` itself would let a new store
/// compile without the call that it forgot.
#[async_trait]
pub trait StoreLayer: Send + Sync {
    /// The store that gets the calls this layer does not override.
    fn below(&self) -> &dyn Store;

    /// See [`Store::get`].
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        self.below().get(tenant, keys).await
    }

    /// See [`Store::contains`].
    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.below().contains(tenant, keys).await
    }

    /// See [`Store::put`].
    async fn put(
        &self,
        tenant: TenantId,
        writer: &Writer,
        objects: Vec<Object>,
    ) -> StoreResult<()> {
        self.below().put(tenant, writer, objects).await
    }

    /// See [`Store::commit`].
    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        self.below().commit(tenant, commit).await
    }

    /// See [`Store::snapshots`].
    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        self.below().snapshots(tenant, ids).await
    }

    /// See [`Store::list_snapshots`].
    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        self.below().list_snapshots(tenant, after, limit).await
    }

    /// See [`Store::snapshots_since`].
    async fn snapshots_since(
        &self,
        tenant: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let below = self.below();
        below.snapshots_since(tenant, recent, after, limit).await
    }

    /// See [`Store::reference`].
    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        self.below().reference(tenant, name).await
    }

    /// See [`Store::list_references`].
    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        let below = self.below();
        below.list_references(tenant, prefix, after, limit).await
    }

    /// See [`Store::stored_bytes`].
    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        self.below().stored_bytes(tenant).await
    }

    /// See [`Store::writing`].
    async fn writing(&self, tenant: TenantId) -> StoreResult<Writer> {
        self.below().writing(tenant).await
    }

    /// See [`Store::hold`].
    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>> {
        self.below().hold(tenant, snapshots).await
    }

    /// See [`Store::collection`].
    async fn collection(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>> {
        self.below().collection(tenant, scope).await
    }
}

#[async_trait]
impl<L: StoreLayer> Store for L {
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        StoreLayer::get(self, tenant, keys).await
    }

    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        StoreLayer::contains(self, tenant, keys).await
    }

    async fn put(
        &self,
        tenant: TenantId,
        writer: &Writer,
        objects: Vec<Object>,
    ) -> StoreResult<()> {
        StoreLayer::put(self, tenant, writer, objects).await
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        StoreLayer::commit(self, tenant, commit).await
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        StoreLayer::snapshots(self, tenant, ids).await
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        StoreLayer::list_snapshots(self, tenant, after, limit).await
    }

    async fn snapshots_since(
        &self,
        tenant: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        StoreLayer::snapshots_since(self, tenant, recent, after, limit).await
    }

    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        StoreLayer::reference(self, tenant, name).await
    }

    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        StoreLayer::list_references(self, tenant, prefix, after, limit).await
    }

    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        StoreLayer::stored_bytes(self, tenant).await
    }

    async fn writing(&self, tenant: TenantId) -> StoreResult<Writer> {
        StoreLayer::writing(self, tenant).await
    }

    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>> {
        StoreLayer::hold(self, tenant, snapshots).await
    }

    async fn collection(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>> {
        StoreLayer::collection(self, tenant, scope).await
    }
}
