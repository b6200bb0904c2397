use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_objects::SnapshotId;

use crate::error::Result;
use crate::records::{ClientSnapshot, SnapshotQuery};

/// Snapshots that clients have taken, imported or named.
#[async_trait]
pub trait Snapshots {
    /// Records a snapshot, and returns the record. If the tenant has a record of
    /// the snapshot, only its name changes, and only if `snapshot` has one.
    /// `Exists` if another snapshot of the tenant has the name; `NotFound` for the
    /// owner if the tenant does not exist or is being erased.
    async fn record_snapshot(&self, snapshot: &ClientSnapshot) -> Result<ClientSnapshot>;

    /// Removes the name of a snapshot, and returns the record; `None` if there is
    /// no record.
    async fn remove_snapshot_name(
        &self,
        tenant: TenantId,
        id: SnapshotId,
    ) -> Result<Option<ClientSnapshot>>;

    /// Returns the record of a snapshot.
    async fn client_snapshot(
        &self,
        tenant: TenantId,
        id: SnapshotId,
    ) -> Result<Option<ClientSnapshot>>;

    /// Returns the snapshot with this name.
    async fn snapshot_by_name(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<ClientSnapshot>>;

    /// Returns a page of snapshots, newest first.
    async fn client_snapshots(&self, query: &SnapshotQuery) -> Result<Vec<ClientSnapshot>>;

    /// Returns at most `limit` snapshots of a tenant without a name, by id; only
    /// those after an id if one is given.
    async fn unnamed_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: u32,
    ) -> Result<Vec<SnapshotId>>;

    /// Deletes the record of a snapshot without a name. Returns `false` if there is
    /// no such record.
    async fn forget_snapshot(&self, tenant: TenantId, id: SnapshotId) -> Result<bool>;
}
