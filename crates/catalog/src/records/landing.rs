use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_objects::SnapshotId;
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::review::{Review, ReviewChange};
use super::version::PathChange;

/// A move of a project's head, in one step or several, with all that belongs
/// to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Whose project.
    pub tenant: TenantId,
    /// Which project.
    pub project: String,
    /// The head that the first step was made from.
    pub expected_head: SnapshotId,
    /// The version of the policy that all steps were computed with.
    pub expected_policy: u64,
    /// 1 to [`MAX_STEPS`](crate::MAX_STEPS), each made from the one before it.
    pub steps: Vec<Step>,
    /// The present time.
    pub now: Timestamp,
}

/// One merge, or whatever else moves a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub kind: LandingKind,
    /// The head after it. If it is the head before it, then all was held for
    /// review: the step is no entry of the log, and changes no path.
    pub snapshot: SnapshotId,
    /// Whose work it is.
    pub agent: Option<String>,
    /// The workspace it comes from.
    pub workspace: Option<String>,
    /// The key of who asked for it.
    pub key: String,
    /// Why, in words for people.
    pub message: String,
    /// What whoever asks calls this step, so that asking again does nothing.
    pub request: Option<String>,
    /// What happened to how many files, as the caller writes it.
    pub counts: Value,
    /// The paths it changes.
    pub changes: Vec<PathChange>,
    /// The reviews it changes, before any is opened.
    pub reviews: Vec<ReviewStep>,
    /// The reviews it opens.
    pub opens: Vec<Review>,
    /// Where it moves the base of its workspace to.
    pub base: Option<BaseMove>,
}

/// A change of a review that is part of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewStep {
    /// Which review of the project.
    pub id: String,
    /// What to change.
    pub change: ReviewChange,
}

/// What a step does to its workspace, which counts one merge more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseMove {
    /// The base that the step was computed from.
    pub expected: SnapshotId,
    /// The base of the next merge.
    pub base: SnapshotId,
    /// The project's head that it has seen by now.
    pub synced: SnapshotId,
    /// Conflicts of a refresh that the workspace has settled.
    pub settled: Vec<TreePath>,
}

/// What moves a head.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum LandingKind {
    /// A workspace was merged.
    Merge,
    /// A patch was applied.
    Apply,
    /// An earlier landing was undone.
    Revert,
    /// A path was made what it was in an earlier version.
    Restore,
    /// Files came from elsewhere.
    Import,
    /// A review was resolved.
    Resolve,
    /// An archive was unpacked.
    Archive,
}

/// What a landing led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The project's head now.
    pub head: SnapshotId,
    /// How many times it has moved.
    pub sequence: u64,
    /// What became of each step.
    pub steps: Vec<LandedStep>,
}

/// What became of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandedStep {
    /// Its number in the log; `None` if all of it was held for review.
    pub sequence: Option<u64>,
    /// The project's head after it.
    pub head: SnapshotId,
}

/// One move of a project's head, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Which project.
    pub project: String,
    /// The how manieth move of the head it is, from 1.
    pub sequence: u64,
    /// The head since then.
    pub snapshot: SnapshotId,
    /// The head before: the snapshot of the entry before.
    pub parent: SnapshotId,
    /// What it was.
    pub kind: LandingKind,
    /// Whose work it was.
    pub agent: Option<String>,
    /// The workspace it came from.
    pub workspace: Option<String>,
    /// The key of who asked for it.
    pub key: String,
    /// Why, in words for people.
    pub message: String,
    /// What whoever asked for it called it.
    pub request: Option<String>,
    /// What happened to how many files.
    pub counts: Value,
    /// When it landed.
    pub created: Timestamp,
    /// When the content of its snapshot was dropped, if it was.
    pub dropped: Option<Timestamp>,
}
