use async_trait::async_trait;
use elevo_core::TenantId;

use crate::error::Result;
use crate::records::{RootPlace, Roots};

/// The snapshots that must be kept: a garbage collection starts from them.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps this one:
///
/// 23. *A walk misses nothing*: a walk over all pages returns every snapshot that
///     the same record needs during the whole walk.
#[async_trait]
pub trait SnapshotRoots {
    /// Returns snapshots of a tenant that must be kept: present and earlier heads
    /// that were not dropped, tags, the base and the synced head of workspaces,
    /// the files of parked workspaces in the store,
    /// the three sides of open reviews, and snapshots with a name. Continues at a cursor, or starts
    /// at the beginning. `limit` is the number of records to read. A snapshot may be
    /// returned more than once.
    async fn roots(&self, tenant: TenantId, after: Option<&RootPlace>, limit: u32)
    -> Result<Roots>;
}
