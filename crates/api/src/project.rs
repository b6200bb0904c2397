//! Projects, their history, and what is read from them.

mod merge;
mod retention;
mod review;
mod tag;
mod workspaces;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use merge::{
    Apply, ApplyFile, Conflict, ConflictHunk, FileRefused, HunkPlace, ImportResult, ImportSource,
    LandedFile, LineRange, Merge, MergeResult, RestorePath, Revert, Version,
};
pub use retention::Retention;
pub use review::{Resolution, ResolveReview, Review, ReviewPage, ReviewState};
pub use tag::{SetTag, Tag, TagPage};
pub use workspaces::{
    CreateWorkspace, Refresh, Refreshed, Sync, SyncMode, Workspace, WorkspacePage, WorkspaceState,
};

/// A wish for a project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateProject {
    /// What it is called; no other of the tenant is called so.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// A snapshot that it begins with; nothing by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Who may do what with which paths; everybody everything by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<elevo_policy::Policy>,
    /// Which versions keep their content; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
}

/// What of a project shall be another.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeProject {
    /// Its new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// What it is for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// Which versions keep their content from now on. What is gone stays gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
}

/// A shared, versioned tree of files.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Its id.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The newest snapshot of the shared files.
    pub head: String,
    /// How often the head has moved.
    pub sequence: u64,
    /// Entries in it, directories included. Left out if the caller may not see
    /// all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Bytes of all its files. Left out if the caller may not see all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How often the policy was set.
    pub policy_version: u64,
    /// Which versions keep their content.
    pub retention: Retention,
    /// When it was made.
    pub created_at: String,
    /// When its head last moved, or something else of it was changed.
    pub updated_at: String,
}

/// Projects, a page of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectPage {
    /// The newest first.
    pub items: Vec<Project>,
    /// Where the next page begins; none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The policy of a project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectPolicy {
    /// How often it was set.
    pub version: u64,
    /// What it says.
    pub policy: elevo_policy::Policy,
}

/// A new policy of a project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetPolicy {
    /// What it says.
    pub policy: elevo_policy::Policy,
    /// The version that it replaces; whichever is there if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

/// One step of a project's head.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// Its number, from 1.
    pub sequence: u64,
    /// The head it made.
    pub snapshot: String,
    /// The head before it.
    pub parent: String,
    /// What it was: `merge`, `apply`, `revert`, `restore`, `import`, `archive` or `resolve`.
    pub kind: String,
    /// The agent whose work it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The workspace it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The decision on a review that made it, if it is a `resolve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
    /// What was said of it.
    pub message: String,
    /// Paths that it changed; a directory taken whole counts as one.
    pub changed: u64,
    /// When.
    pub created_at: String,
    /// When the content of the snapshot was dropped, if the project's retention
    /// did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_at: Option<String>,
}

/// A decision on a review, as the log has it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// Who decided: an agent, or a key.
    pub by: String,
    /// The name of that agent or key.
    pub name: String,
    /// The review.
    pub review: String,
    /// What was decided.
    pub resolution: Resolution,
}

/// Steps of a project's head, a page of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogPage {
    /// The newest first.
    pub items: Vec<LogEntry>,
    /// The sequence to go on before; none if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// What one step did to one path.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileVersion {
    /// Where.
    pub path: String,
    /// Where it was before, or what its maker called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What happened: `added`, `modified`, `removed`, `renamed` or `mode`.
    pub kind: String,
    /// Entries that this stands for; more than one for a directory taken whole.
    pub entries: u64,
    /// How it was merged.
    pub algorithm: String,
    /// The step.
    pub sequence: u64,
    /// The head that it made.
    pub snapshot: String,
    /// The agent whose work it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The workspace it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// What was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Version>,
    /// What is there since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Version>,
    /// When.
    pub created_at: String,
}

/// Versions, a page of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionPage {
    /// The newest first; of one step, by path.
    pub items: Vec<FileVersion>,
    /// Where the next page begins; none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Who wrote which lines of a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blame {
    /// The file.
    pub path: String,
    /// The snapshot it is looked at in.
    pub snapshot: String,
    /// Runs of lines, in order.
    pub lines: Vec<BlamedLines>,
    /// The step whose version before was dropped, or where there was too much text
    /// to compare: of lines that are older, it is not known which step they came
    /// with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_since: Option<u64>,
}

/// Lines that came with one step.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlamedLines {
    /// The first of them, from 1.
    pub start: u32,
    /// How many.
    pub count: u32,
    /// The step they came with; none if they are older than the history, or
    /// than what is kept of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The agent whose work they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
}

/// An entry of a directory.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeEntry {
    /// Its path from the root of the project.
    pub path: String,
    /// What it is.
    #[serde(flatten)]
    pub version: Version,
}

/// Entries of a directory, a page of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreePage {
    /// The snapshot it is looked at in.
    pub snapshot: String,
    /// In the order of their names.
    pub items: Vec<TreeEntry>,
    /// The name to go on after; none if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
