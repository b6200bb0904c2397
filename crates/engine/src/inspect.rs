//! What looking through a whole store, and putting it right, needs beyond
//! [`Store`]. `conformance` holds its implementations to what is written here.

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_objects::{Hash, Kind, ObjectKey, Snapshot, SnapshotId};

use crate::store::{Object, Store, StoreResult};

/// What is written over whatever is there.
#[derive(Clone, Debug, Default)]
pub struct Mend {
    /// Objects to store in place of damaged or missing ones.
    pub objects: Vec<Object>,
    /// Snapshots to store, in the same way.
    pub snapshots: Vec<Snapshot>,
    /// References to set, wherever they point to now.
    pub references: Vec<(String, SnapshotId)>,
    /// Objects to remove. Nobody may need them.
    pub remove: Vec<ObjectKey>,
}

/// A store that can be looked through and put right.
#[async_trait]
pub trait Inspect: Store {
    /// Hashes of stored objects of a kind, needed or not, in the order of their
    /// bytes, after `after`, at most `limit`; fewer only at the end of the list.
    ///
    /// Fails where a part of the list cannot be read. What comes before that
    /// part is told if `limit` ends there, and what comes behind it by a call
    /// with a later `after`. No object is read.
    async fn list_objects(
        &self,
        tenant: TenantId,
        kind: Kind,
        after: Option<Hash>,
        limit: usize,
    ) -> StoreResult<Vec<Hash>>;

    /// Writes and removes rows without reading what is there, so that damage is
    /// no hindrance. All or nothing, and durable when it returns. Refuses
    /// objects whose bytes do not match their key.
    async fn mend(&self, tenant: TenantId, mend: Mend) -> StoreResult<()>;
}
