use elevo_core::{AgentId, KeyId, ProjectId, TenantId, Timestamp, TreePath, WorkspaceId};
use elevo_objects::{Entry, SnapshotId};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::event::EventKind;
use crate::columns::{Column, Optional, stored};
use crate::nodes::NodeId;
use crate::query::Position;

/// An agent's own branch of a project, or a workspace without a project.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Workspace {
    /// Id, unique among the workspaces of all tenants.
    #[sqlx(try_from = "Column<WorkspaceId>")]
    pub id: WorkspaceId,
    /// The tenant it belongs to.
    #[sqlx(try_from = "Column<TenantId>")]
    pub tenant: TenantId,
    /// The project it merges into, if any.
    #[sqlx(try_from = "Optional<ProjectId>")]
    pub project: Option<ProjectId>,
    /// The agent that works in it, if one is named.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// The key it was created with.
    #[sqlx(rename = "api_key", try_from = "Column<KeyId>")]
    pub key: KeyId,
    /// Display name; need not be unique.
    pub name: Option<String>,
    /// The base of its next merge: a state that both it and the project contain.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub base: SnapshotId,
    /// The newest head of the project that it contains.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub synced: SnapshotId,
    /// Number of its completed merges.
    #[sqlx(try_from = "Column<u64>")]
    pub merges: u64,
    /// How and how often it is merged and refreshed. The catalog does not
    /// interpret it.
    #[sqlx(try_from = "Column<Value>")]
    pub sync: Value,
    /// Whether it is never merged.
    pub read_only: bool,
    /// Whether it follows the project's head.
    pub follows: bool,
    /// The place of its files.
    #[sqlx(try_from = "Column<WorkspaceState>")]
    pub state: WorkspaceState,
    /// The node that has its directory, or had it last.
    #[sqlx(try_from = "Column<NodeId>")]
    pub node: NodeId,
    /// How often it has got a node, starting at 1. A change that the server of an
    /// earlier node makes is rejected by it.
    #[sqlx(try_from = "Column<u64>")]
    pub generation: u64,
    /// Its files in the store while it is parked.
    #[sqlx(flatten)]
    pub files: WorkspaceFiles,
    /// Time of its last merge.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub last_merge: Option<Timestamp>,
    /// Time at which it is deleted if it is still parked then.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub expires: Option<Timestamp>,
    /// Time of creation.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
    /// Time of the last change of this record.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub updated: Timestamp,
}

impl Workspace {
    /// Its position in a list; see [`WorkspaceQuery`].
    pub fn position(&self) -> Position {
        Position {
            created: self.created,
            id: self.id.to_string(),
        }
    }
}

/// The place of a workspace's files.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum WorkspaceState {
    /// In a directory of a node, where an agent may work on them.
    Live,
    /// In the store, until a sandbox uses the workspace. On a full disk, the files
    /// stay in their directory until there is space.
    Parked,
    /// About to be deleted, which cannot be undone.
    Removing,
}

/// The files of a parked workspace in the store, from which any node can make its
/// directory again. The registry of its node has the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub struct WorkspaceFiles {
    /// The snapshot that its directory was created from.
    #[sqlx(rename = "files_origin", try_from = "Optional<SnapshotId>")]
    pub origin: Option<SnapshotId>,
    /// The newest snapshot of its files. `None` if it is not parked, or if its
    /// node alone knows the snapshot.
    #[sqlx(rename = "files_base", try_from = "Optional<SnapshotId>")]
    pub base: Option<SnapshotId>,
    /// The newest snapshot of its home, if the home was not empty.
    #[sqlx(rename = "files_home", try_from = "Optional<SnapshotId>")]
    pub home: Option<SnapshotId>,
    /// Maximum bytes of changes in it.
    #[sqlx(rename = "files_limit", try_from = "Optional<u64>")]
    pub limit: Option<u64>,
}

/// A path with a refresh conflict that the workspace has not settled yet.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Unsettled {
    /// The path of the conflict.
    #[sqlx(try_from = "Column<TreePath>")]
    pub path: TreePath,
    /// The entry that the project had at this path at the refresh; `None` if the
    /// project had deleted the path.
    #[sqlx(try_from = "Optional<Entry>")]
    pub seen: Option<Entry>,
    /// The entry that the refresh left in the workspace. The conflict is not
    /// settled while the workspace still has this entry.
    #[sqlx(rename = "entry_left", try_from = "Optional<Entry>")]
    pub left: Option<Entry>,
    /// Whether the refresh wrote conflict markers into the file.
    pub marked: bool,
}

/// A change of a workspace. Fields that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceChange {
    /// The base and the number of merges that the workspace must have; `None` for
    /// any.
    pub expected: Option<(SnapshotId, u64)>,
    /// The state that the workspace must be in; `None` for any.
    pub from: Option<WorkspaceState>,
    /// The generation that the workspace must have; `None` for any.
    pub generation: Option<u64>,
    /// A time by which the workspace must have expired.
    pub expired_by: Option<Timestamp>,
    /// New display name.
    pub name: Option<Option<String>>,
    /// New base of the next merge.
    pub base: Option<SnapshotId>,
    /// New value of [`Workspace::synced`].
    pub synced: Option<SnapshotId>,
    /// How and how often it is merged and refreshed.
    pub sync: Option<Value>,
    /// Whether it is never merged.
    pub read_only: Option<bool>,
    /// Whether it follows the project's head.
    pub follows: Option<bool>,
    /// New place of its files.
    pub state: Option<WorkspaceState>,
    /// New node, which also increases the generation by one.
    pub node: Option<NodeId>,
    /// Its files in the store.
    pub files: Option<WorkspaceFiles>,
    /// All unsettled conflicts, each path once. Replaces the recorded ones.
    pub unsettled: Option<Vec<Unsettled>>,
    /// New time of deletion.
    pub expires: Option<Option<Timestamp>>,
    /// Events to record in the same transaction.
    pub tells: Vec<EventKind>,
}

/// A list of workspaces, newest first: by time of creation, then by id, both
/// descending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceQuery {
    /// Only workspaces of this tenant; `None` for all tenants.
    pub tenant: Option<TenantId>,
    /// Only workspaces of this project.
    pub project: Option<ProjectId>,
    /// Only workspaces of this agent.
    pub agent: Option<AgentId>,
    /// Only workspaces in this state.
    pub state: Option<WorkspaceState>,
    /// Only workspaces of this node.
    pub node: Option<NodeId>,
    /// Only workspaces after this position.
    pub after: Option<Position>,
    /// Maximum number of workspaces: 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    pub limit: u32,
}

impl Default for WorkspaceQuery {
    /// The first page of all workspaces.
    fn default() -> Self {
        Self {
            tenant: None,
            project: None,
            agent: None,
            state: None,
            node: None,
            after: None,
            limit: crate::limits::MAX_PAGE,
        }
    }
}

stored!(variant WorkspaceState);
