use std::collections::HashSet;

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, Timestamp};
use elevo_objects::SnapshotId;

use crate::error::Result;
use crate::records::{Project, Unkept, UnkeptQuery};

/// Versions of projects whose content is dropped.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps these:
///
/// 16. *Nothing needs a dropped version*: the head, tags, the base and the synced
///     head of workspaces, and the sides of open reviews are never dropped, and
///     no record comes to need a dropped version of its project. If a drop and a
///     change that needs the version are concurrent, only one of them succeeds.
/// 17. *The log stays*: dropping versions deletes nothing from the log or from
///     the history of paths.
///
/// A dropped version stays dropped. A project drops a version only for itself:
/// another project with the same snapshot keeps it.
#[async_trait]
pub trait VersionRetention {
    /// Returns versions of a project, oldest first, that its retention does not
    /// keep and that were not dropped. Does not check whether a record needs
    /// them; [`drop_versions`](Self::drop_versions) does. For a version that
    /// was the head several times, only the last time counts.
    async fn unkept_versions(&self, project: &Project, query: &UnkeptQuery) -> Result<Unkept>;

    /// Returns the versions that records of a project need, regardless of its
    /// retention.
    async fn needed_versions(&self, project: &Project) -> Result<HashSet<SnapshotId>>;

    /// Drops up to [`MAX_PAGE`](crate::MAX_PAGE) versions, except those that a
    /// record needs or that were dropped before; returns the dropped ones.
    /// `NotFound`, `BeingRemoved`, or `Changed` if the retention differs from
    /// that of `project`.
    async fn drop_versions(
        &self,
        project: &Project,
        snapshots: &[SnapshotId],
        now: Timestamp,
    ) -> Result<Vec<SnapshotId>>;

    /// Returns the ids of a tenant's projects that have dropped a snapshot, in no
    /// particular order.
    async fn dropped_from(&self, tenant: TenantId, snapshot: SnapshotId) -> Result<Vec<ProjectId>>;
}
