//! Projects, their history and their files.

mod merge;
mod retention;
mod review;
mod tag;
mod workspaces;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use merge::{
    Apply, ApplyFile, Conflict, ConflictHunk, FileRefused, HunkLines, HunkPlace, ImportResult,
    ImportSource, LandedFile, LineRange, Merge, MergeResult, MergeWorkspaces, RestorePath, Revert,
    Version, WorkspaceMerged, WorkspacesMerged,
};
pub use retention::Retention;
pub use review::{
    ResolveReview, ResolveReviews, Review, ReviewPage, ReviewState, ReviewToResolve,
    ReviewsResolved, Take,
};
pub use tag::{SetTag, Tag, TagPage};
pub use workspaces::{
    CreateWorkspace, ForkWorkspace, Refresh, Refreshed, Sync, SyncMode, Workspace, WorkspacePage,
    WorkspaceState, WorkspacesForked,
};

/// Request to create a project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateProject {
    /// Name of the project, unique in its tenant.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Purpose of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// The snapshot to start with; an empty tree by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Policy of the project. By default, every agent may read and write every
    /// path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<elevo_policy::Policy>,
    /// Rule that selects the versions whose content is kept; all versions by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
}

/// Changes to a project. Absent fields stay as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeProject {
    /// New name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// New description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// New retention of versions. Content that was already deleted stays
    /// deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
}

/// A shared, versioned tree of files.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Id of the project.
    pub id: String,
    /// Name of the project.
    pub name: String,
    /// Purpose of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Snapshot of the newest version.
    pub head: String,
    /// Number of the newest step; 0 before the first one.
    pub step: u64,
    /// Number of entries in the tree, including directories. Absent if the
    /// caller may not see all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Size of all files in bytes. Absent if the caller may not see all of
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Version of the policy; increases each time it is set.
    pub policy_version: u64,
    /// Rule that selects the versions whose content is kept.
    pub retention: Retention,
    /// When the project was created.
    pub created_at: String,
    /// When the head last moved, or the project was last changed.
    pub updated_at: String,
}

/// A page of projects.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectPage {
    /// The projects, newest first.
    pub items: Vec<Project>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The policy of a project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectPolicy {
    /// Version of the policy; increases each time it is set.
    pub version: u64,
    /// The rules.
    pub policy: elevo_policy::Policy,
}

/// A new policy of a project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetPolicy {
    /// The rules.
    pub policy: elevo_policy::Policy,
    /// Version of the policy that this request replaces. The request fails if
    /// the policy has another version. If absent, the current version is
    /// replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

/// A step: one move of a project's head, and one entry of its history.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Number of the step, starting at 1.
    pub number: u64,
    /// The head after the step.
    pub snapshot: String,
    /// The head before the step.
    pub parent: String,
    /// Kind of the step: `merge`, `apply`, `revert`, `restore`, `import`,
    /// `archive` or `resolve`.
    pub kind: String,
    /// The agent that made the changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The workspace that the changes came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The decision on a review that caused the step, if the kind is `resolve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
    /// Message of the step.
    pub message: String,
    /// Number of changed paths; a directory that was added or removed as a
    /// whole counts as one.
    pub changed: u64,
    /// When the head moved.
    pub created_at: String,
    /// When the content of the version was deleted, if the project's retention
    /// did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_at: Option<String>,
}

/// A decision on a review, as recorded in the log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// Id of the agent or key that decided.
    pub by: String,
    /// Name of the agent or key that decided.
    pub name: String,
    /// Id of the review.
    pub review: String,
    /// The version that the decision took.
    pub take: Take,
}

/// A page of steps of a project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepPage {
    /// The steps, newest first.
    pub items: Vec<Step>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The change that one step made to one path.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileVersion {
    /// The path.
    pub path: String,
    /// The earlier path, if the change moved the file; or the path at which the
    /// author made the change, if it landed at another path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Kind of the change: `added`, `modified`, `removed`, `renamed` or `mode`.
    pub kind: String,
    /// Number of entries this change covers; more than one for a directory that
    /// was added or removed as a whole.
    pub entries: u64,
    /// Name of the merge algorithm that combined the change with the head.
    pub algorithm: String,
    /// Number of the step.
    pub step: u64,
    /// The head after the step.
    pub snapshot: String,
    /// The agent that made the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The workspace that the change came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The entry before the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Version>,
    /// The entry after the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Version>,
    /// When the head moved.
    pub created_at: String,
}

/// A page of changes to paths.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionPage {
    /// The changes: of a path, newest first; of a step, ordered by path.
    pub items: Vec<FileVersion>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The steps that the lines of a file came from.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blame {
    /// Path of the file.
    pub path: String,
    /// The snapshot that contains the file.
    pub snapshot: String,
    /// Runs of consecutive lines from the same step, in order.
    pub lines: Vec<BlamedLines>,
    /// Number of the step at which the search stopped, because the
    /// version before it was deleted or there was too much text to compare. The
    /// step of older lines is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_since: Option<u64>,
}

/// Consecutive lines that came from one step.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlamedLines {
    /// Number of the first line, starting at 1.
    pub start: u32,
    /// Number of lines.
    pub count: u32,
    /// Number of the step; absent if the lines are older than the
    /// first step, or than the step in `knownSince`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The agent that wrote the lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When the step moved the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
}
