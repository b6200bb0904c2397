use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::merge::Conflict;

/// A wish for a workspace on a project, without a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateWorkspace {
    /// The project, by id or name.
    pub project: String,
    /// The agent that works in it; the key's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it is called; need not be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// A head of the project to begin with; the newest by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What can be written to it, such as `2g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// The user of the server's machine who works in it by its path, by number
    /// or name; no other user can. Without one only the server's user can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether nothing can be written; as the policy says by default.
    #[serde(default)]
    pub read_only: bool,
    /// How it keeps up with the project.
    #[serde(default)]
    pub sync: Sync,
}

/// How a workspace keeps up with its project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sync {
    /// When.
    #[serde(default)]
    pub mode: SyncMode,
    /// Seconds between two looks at the project, for `lazy` (30 to 60) and
    /// `regular` (5 to 10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub seconds: Option<u32>,
}

/// When a workspace is brought up to date, and merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncMode {
    /// Only when asked.
    #[default]
    Manual,
    /// Brought up to date every 30 seconds or so; merged when asked.
    Lazy,
    /// Brought up to date and merged every 5 seconds or so.
    Regular,
    /// Brought up to date as soon as the head moves, merged soon after it was
    /// written to.
    Event,
}

/// Whether a workspace can be worked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceState {
    /// It has a directory.
    Live,
    /// It is kept for a while without a sandbox, and can be resumed.
    Parked,
}

/// One agent's own view of a project, or of files outside of projects.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// Its id.
    pub id: String,
    /// The project; none for a workspace of a sandbox outside of projects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The agent that works in it, with whose rights it is merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it can be worked in.
    pub state: WorkspaceState,
    /// Its directory on the server's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Number of the user of the server's machine who can work in it by its
    /// path, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// The sandbox it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The head of the project that it last saw.
    pub synced: String,
    /// Whether nothing can be written.
    pub read_only: bool,
    /// How it keeps up with the project.
    pub sync: Sync,
    /// How often it was merged.
    pub merges: u64,
    /// When a parked one is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// When something of it was last changed.
    pub updated_at: String,
}

/// Workspaces, a page of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspacePage {
    /// The newest first.
    pub items: Vec<Workspace>,
    /// Where the next page begins; none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How a workspace is brought up to date.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refresh {
    /// Only say what would happen.
    #[serde(default)]
    pub dry_run: bool,
}

/// A workspace that was brought up to date.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refreshed {
    /// The head that it has seen now.
    pub head: String,
    /// Paths that were changed in it; at most a thousand of them.
    pub changed: Vec<String>,
    /// How many in all.
    pub changed_count: u64,
    /// Paths where the workspace and the project changed the same. The project's
    /// version is the base of the workspace's next merge there: the merge takes
    /// what the workspace has once that is another version than it has now.
    pub conflicts: Vec<Conflict>,
    /// Those of `conflicts` whose files have conflict markers now, at most a
    /// thousand. The other files are the workspace's own, as they were.
    #[serde(default)]
    pub marked: Vec<String>,
}
