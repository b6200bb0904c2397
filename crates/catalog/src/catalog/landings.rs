use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId};
use elevo_objects::SnapshotId;

use crate::error::Result;
use crate::records::{Landed, LandedStep, Landing, LogEntry};

/// Moves of the heads of projects, and the log of them.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps these:
///
/// 11. *The log is a chain*: acknowledged landings of a project are numbered
///     from 1 without a gap, the parent of each is the snapshot of the one
///     before, and the head is the snapshot of the last.
/// 12. *Of concurrent landings that expect the same head and move it, exactly
///     one succeeds.*
/// 13. *A landing becomes visible as a whole*: head, log, versions, reviews,
///     events and the bases of workspaces change together.
/// 14. *A request lands once*: a step whose request was carried out before
///     changes nothing, no matter how often it is repeated.
///
/// For an unknown project the reads find nothing.
#[async_trait]
pub trait Landings {
    /// Carries out all steps of a landing, or none.
    ///
    /// Checks in this order: `NotFound` if the tenant has no such project;
    /// `Repeated` if the request of a step was carried out before; `BeingRemoved`;
    /// `HeadMoved` if the head is not the expected one; `PolicyMoved` if the policy
    /// does not have the expected version; `Dropped` if a step would need a dropped
    /// version. Then for each step: `NotFound`, `Changed` or `Refused` if a review
    /// or the workspace is not as expected, `Dropped` if a reopened review needs a
    /// dropped version, `Exists` if the id of a new review is taken or its workspace
    /// has an open review for the path.
    async fn land(&self, landing: &Landing) -> Result<Landed>;

    /// Returns the result of a step by its request.
    async fn landing_by_request(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        request: &str,
    ) -> Result<Option<LandedStep>>;

    /// Returns an entry of the log by sequence number.
    async fn landing(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        sequence: u64,
    ) -> Result<Option<LogEntry>>;

    /// Returns the last entry of the log that made this snapshot the head.
    async fn landing_of_snapshot(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        snapshot: SnapshotId,
    ) -> Result<Option<LogEntry>>;

    /// Returns at most `limit` entries of the log, newest first; only those before
    /// a sequence number if one is given.
    async fn log(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<LogEntry>>;
}
