use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::merge::Conflict;

/// Request to create a workspace on a project, without a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateWorkspace {
    /// Id or name of the project.
    pub project: String,
    /// The agent that works in the workspace, by id or name; the key's agent by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Name of the workspace, unique in its project. A request accepts it wherever
    /// it accepts the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// The version of the project to start from; the head by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Maximum disk space, such as `2g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// The user of the server's machine that may access the workspace's
    /// directory, by name or user id. By default, only the server's user may
    /// access it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether the workspace is read-only. The workspace is always read-only if
    /// the policy does not let the agent write any path.
    #[serde(default)]
    pub read_only: bool,
    /// How the workspace is synchronised with the project.
    #[serde(default)]
    pub sync: Sync,
}

/// How a workspace is synchronised with its project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sync {
    /// When the workspace is refreshed and merged.
    #[serde(default)]
    pub mode: SyncMode,
    /// Seconds between two synchronisations, for `lazy` (default 45) and
    /// `regular` (default 7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub seconds: Option<u32>,
}

/// When a workspace is refreshed and merged: `manual` does both only on
/// request; `lazy` refreshes at intervals; `regular` refreshes and merges at
/// intervals; `event` refreshes when the head moves and merges when files
/// change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncMode {
    /// Only on request.
    #[default]
    Manual,
    /// Refreshed every 45 seconds by default; merged on request.
    Lazy,
    /// Refreshed and merged every 7 seconds by default.
    Regular,
    /// Refreshed as soon as the head moves, and merged soon after a file in the
    /// workspace changes.
    Event,
}

/// State of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkspaceState {
    /// The workspace has a directory.
    Live,
    /// The workspace is kept until it expires, without a directory, and can be
    /// resumed.
    Parked,
}

/// A writable copy of a project for one agent, or of files outside of projects.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// Id of the workspace.
    pub id: String,
    /// Id of the project; absent for a sandbox's workspace that is not on a
    /// project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The agent that works in the workspace. Merges of the workspace use the
    /// rights of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Name of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// State of the workspace.
    pub state: WorkspaceState,
    /// Directory on the server's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// User id, on the server's machine, of the `owner` that the workspace was
    /// created with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// The sandbox that uses the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The version of the project that the workspace was last refreshed to, or
    /// was created from.
    pub synced: String,
    /// Whether the workspace is read-only.
    pub read_only: bool,
    /// How the workspace is synchronised with the project.
    pub sync: Sync,
    /// Number of merges of the workspace.
    pub merges: u64,
    /// When a parked workspace is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When the workspace was created.
    pub created_at: String,
    /// When the workspace was last changed.
    pub updated_at: String,
}

/// A page of workspaces.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspacePage {
    /// The workspaces, newest first.
    pub items: Vec<Workspace>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Options of a refresh.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refresh {
    /// Whether to report the result without changing the workspace.
    #[serde(default)]
    pub dry_run: bool,
}

/// Result of a refresh.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refreshed {
    /// The head that was brought into the workspace.
    pub head: String,
    /// Paths that the refresh changed; at most 1000 are listed. Always empty
    /// for a read-only workspace.
    pub changed: Vec<String>,
    /// Number of paths that the refresh changed; for a read-only workspace, 1
    /// if anything changed.
    pub changed_count: u64,
    /// Conflicts between changes of the workspace and of the project; at most
    /// 1000 are listed. To resolve a conflict, edit the file and merge. The
    /// next merge rejects files that still have conflict markers; files without
    /// markers are held for review if they were not edited.
    pub conflicts: Vec<Conflict>,
    /// Paths of `conflicts` whose files now have conflict markers; at most 1000
    /// are listed. The other files keep the workspace's version.
    #[serde(default)]
    pub marked: Vec<String>,
}

/// Request to fork a workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkWorkspace {
    /// Number of forks; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 50)]
    pub count: Option<u32>,
    /// Name of the forks; a number is appended if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 90)]
    pub name: Option<String>,
}

/// Result of a fork of a workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct WorkspacesForked {
    /// The new workspaces.
    pub succeeded: Vec<Workspace>,
    /// The forks that failed. The server has deleted everything that it created
    /// for them.
    pub failed: Vec<crate::Failed>,
}
