use elevo_core::{AgentId, KeyId, ProjectId, ReviewId, TenantId, Timestamp, TreePath, WorkspaceId};
use elevo_objects::SnapshotId;
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::review::{Review, ReviewChange};
use super::version::PathChange;
use crate::columns::{Column, Optional, stored};

/// A move of a project's head, in one or more steps, with all records that change
/// with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The tenant of the project.
    pub tenant: TenantId,
    /// Id of the project.
    pub project: ProjectId,
    /// The head that the first step was computed from.
    pub expected_head: SnapshotId,
    /// The version of the policy that all steps were computed with.
    pub expected_policy: u64,
    /// 1 to [`MAX_STEPS`](crate::MAX_STEPS) steps, each computed from the one
    /// before it.
    pub steps: Vec<Step>,
    /// The current time.
    pub now: Timestamp,
}

/// One merge, or another operation that moves a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The operation.
    pub kind: LandingKind,
    /// The head after the step. If it equals the head before the step, everything
    /// was held for review: the step gets no entry in the log and changes no
    /// path.
    pub snapshot: SnapshotId,
    /// The agent whose work it is.
    pub agent: Option<AgentId>,
    /// The workspace it comes from.
    pub workspace: Option<WorkspaceId>,
    /// The key of the request.
    pub key: KeyId,
    /// Message for people.
    pub message: String,
    /// The caller's name for this step; a repeated step with the same name
    /// changes nothing.
    pub request: Option<String>,
    /// Numbers of files by outcome. The catalog does not interpret them.
    pub counts: Value,
    /// The paths that the step changes.
    pub changes: Vec<PathChange>,
    /// The reviews that the step changes, before it opens new ones.
    pub reviews: Vec<ReviewStep>,
    /// The reviews that the step opens.
    pub opens: Vec<Review>,
    /// The move of the workspace's base.
    pub base: Option<BaseMove>,
}

/// A change of a review that is part of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewStep {
    /// Id of a review of the project.
    pub id: ReviewId,
    /// The change.
    pub change: ReviewChange,
}

/// The change that a step makes to its workspace. It also increases the
/// workspace's number of merges by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseMove {
    /// The base that the step was computed from.
    pub expected: SnapshotId,
    /// The base of the next merge.
    pub base: SnapshotId,
    /// The newest head of the project that the workspace contains.
    pub synced: SnapshotId,
    /// Paths of refresh conflicts that the workspace has settled.
    pub settled: Vec<TreePath>,
}

/// Operations that move a head.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum LandingKind {
    /// A workspace was merged.
    Merge,
    /// A patch was applied.
    Apply,
    /// An earlier landing was reverted.
    Revert,
    /// A path was restored from an earlier version.
    Restore,
    /// Files were imported from outside.
    Import,
    /// A review was resolved.
    Resolve,
    /// An archive was unpacked.
    Archive,
}

/// The result of a landing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The head of the project now.
    pub head: SnapshotId,
    /// Number of times the head has moved.
    pub sequence: u64,
    /// The result of each step.
    pub steps: Vec<LandedStep>,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct LandedStep {
    /// Its sequence number in the log; `None` if all of it was held for review.
    #[sqlx(try_from = "Optional<u64>")]
    pub sequence: Option<u64>,
    /// The head of the project after the step.
    #[sqlx(rename = "snapshot", try_from = "Column<SnapshotId>")]
    pub head: SnapshotId,
}

/// One move of a project's head, as recorded in the log.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct LogEntry {
    /// Id of the project.
    #[sqlx(try_from = "Column<ProjectId>")]
    pub project: ProjectId,
    /// Sequence number of this landing, starting at 1.
    #[sqlx(try_from = "Column<u64>")]
    pub sequence: u64,
    /// The head after the landing.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub snapshot: SnapshotId,
    /// The head before the landing: the snapshot of the previous entry.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub parent: SnapshotId,
    /// The operation.
    #[sqlx(try_from = "Column<LandingKind>")]
    pub kind: LandingKind,
    /// The agent whose work it was.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// The workspace it came from.
    #[sqlx(try_from = "Optional<WorkspaceId>")]
    pub workspace: Option<WorkspaceId>,
    /// The key of the request.
    #[sqlx(rename = "api_key", try_from = "Column<KeyId>")]
    pub key: KeyId,
    /// Message for people.
    pub message: String,
    /// The caller's name for the step.
    pub request: Option<String>,
    /// Numbers of files by outcome.
    #[sqlx(try_from = "Column<Value>")]
    pub counts: Value,
    /// Time of the landing.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
    /// Time at which the content of the snapshot was dropped, if it was.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub dropped: Option<Timestamp>,
}

stored!(variant LandingKind);
