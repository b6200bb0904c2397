use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_objects::{Entry, SnapshotId};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::query::Position;
use crate::records::EventKind;

/// One agent's own branch: of a project, or of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Its id; no other workspace of any tenant has it.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// The project it merges into, if any.
    pub project: Option<String>,
    /// The agent that works in it, if one is named.
    pub agent: Option<String>,
    /// The key it was made with.
    pub key: String,
    /// What people call it. Several may be called the same.
    pub name: Option<String>,
    /// What it and the project agree on: the base of its next merge.
    pub base: SnapshotId,
    /// The project's head that it last saw.
    pub synced: SnapshotId,
    /// How many of its merges have been carried out.
    pub merges: u64,
    /// How and how often it is merged and refreshed, as the caller writes it.
    pub sync: Value,
    /// Whether nothing of it is ever merged.
    pub read_only: bool,
    /// Whether it moves along with the project's head.
    pub follows: bool,
    /// Where its files are.
    pub state: WorkspaceState,
    /// When it was last merged.
    pub last_merge: Option<Timestamp>,
    /// When it is deleted, while it is parked.
    pub expires: Option<Timestamp>,
    /// When it was made.
    pub created: Timestamp,
    /// When something of this was last changed.
    pub updated: Timestamp,
}

impl Workspace {
    /// Where it stands in a list; see [`WorkspaceQuery`].
    pub fn position(&self) -> Position {
        Position {
            created: self.created,
            id: self.id.clone(),
        }
    }
}

/// Where the files of a workspace are.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum WorkspaceState {
    /// In a directory of a node, where an agent may work on them.
    Live,
    /// In the store, where they wait for a sandbox. If there was no room, they
    /// are in their directory until there is.
    Parked,
    /// Soon nowhere. There is no way back.
    Removing,
}

/// A path where a refresh met a conflict that the workspace has not settled yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// The path of the conflict.
    pub path: TreePath,
    /// The project's version that the refresh brought; `None` if the project
    /// had removed it.
    pub seen: Option<Entry>,
    /// The entry that the refresh left in the workspace. The conflict is not
    /// settled while the workspace still has it.
    pub left: Option<Entry>,
    /// Whether the refresh wrote conflict markers into the file.
    pub marked: bool,
}

/// What to change in a workspace. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceChange {
    /// The base and the number of merges it must have for this to happen;
    /// `None` is any.
    pub expected: Option<(SnapshotId, u64)>,
    /// The state it must be in for this to happen; `None` is any.
    pub from: Option<WorkspaceState>,
    /// A time by which it must have expired for this to happen.
    pub expired_by: Option<Timestamp>,
    /// What people call it.
    pub name: Option<Option<String>>,
    /// The base of its next merge.
    pub base: Option<SnapshotId>,
    /// The project's head that it last saw.
    pub synced: Option<SnapshotId>,
    /// How it is merged and refreshed.
    pub sync: Option<Value>,
    /// Whether nothing of it is ever merged.
    pub read_only: Option<bool>,
    /// Whether it moves along with the project's head.
    pub follows: Option<bool>,
    /// Where its files are.
    pub state: Option<WorkspaceState>,
    /// All conflicts that it has not settled, each path once.
    pub unsettled: Option<Vec<Unsettled>>,
    /// When it is deleted.
    pub expires: Option<Option<Timestamp>>,
    /// Events to write in the same transaction.
    pub tells: Vec<EventKind>,
}

/// Which workspaces to list, newest first: by the time they were made, then by
/// id, both descending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceQuery {
    /// Whose; `None` is everybody's.
    pub tenant: Option<TenantId>,
    /// Only those of this project.
    pub project: Option<String>,
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Only those in this state.
    pub state: Option<WorkspaceState>,
    /// Only those that come after this place.
    pub after: Option<Position>,
    /// How many: 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    pub limit: u32,
}

impl Default for WorkspaceQuery {
    /// The first page of everything.
    fn default() -> Self {
        Self {
            tenant: None,
            project: None,
            agent: None,
            state: None,
            after: None,
            limit: crate::MAX_PAGE,
        }
    }
}
