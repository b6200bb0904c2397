//! Operations beyond [`Store`] for inspecting and repairing a whole store.
//! `conformance` checks the implementations against the promises written here.

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_objects::{Hash, Kind, ObjectKey, Snapshot, SnapshotId};

use crate::store::{Object, Store, StoreResult};

/// Rows to write regardless of the rows that are stored.
#[derive(Clone, Debug, Default)]
pub struct RowRepair {
    /// Objects to store in place of damaged or missing ones.
    pub objects: Vec<Object>,
    /// Snapshots to store in place of damaged or missing ones.
    pub snapshots: Vec<Snapshot>,
    /// Refs to set, regardless of their current values.
    pub references: Vec<(String, SnapshotId)>,
    /// Objects to delete. Nothing may need them.
    pub remove: Vec<ObjectKey>,
}

/// A store that can be inspected and repaired.
#[async_trait]
pub trait Inspect: Store {
    /// Returns hashes of stored objects of a kind, needed or not, after
    /// `after`, in byte order, at most `limit`; fewer only at the end of the
    /// list.
    ///
    /// Fails if a part of the page cannot be read. A smaller `limit` returns
    /// the hashes before that part, and a later `after` those behind it. Reads
    /// no object.
    async fn list_objects(
        &self,
        tenant: TenantId,
        kind: Kind,
        after: Option<Hash>,
        limit: usize,
    ) -> StoreResult<Vec<Hash>>;

    /// Writes and deletes rows without reading the old ones, so that damage
    /// does not matter. Either all changes are made or none is; they are
    /// durable when this returns. Rejects objects whose bytes do not match
    /// their key.
    async fn repair_rows(&self, tenant: TenantId, repair: RowRepair) -> StoreResult<()>;
}
