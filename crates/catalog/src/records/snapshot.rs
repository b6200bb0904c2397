use elevo_core::{AgentId, KeyId, TenantId, Timestamp, WorkspaceId};
use elevo_objects::{Hash, SnapshotId};

use crate::columns::{Column, Optional};

/// A snapshot that a client has taken, imported or named.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ClientSnapshot {
    /// The tenant it belongs to.
    #[sqlx(try_from = "Column<TenantId>")]
    pub tenant: TenantId,
    /// The snapshot.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub id: SnapshotId,
    /// The root of its tree; `None` if it has no files.
    #[sqlx(try_from = "Optional<Hash>")]
    pub tree: Option<Hash>,
    /// The workspace it was taken of. The workspace may be deleted.
    #[sqlx(try_from = "Optional<WorkspaceId>")]
    pub workspace: Option<WorkspaceId>,
    /// The key of the request that took it.
    #[sqlx(rename = "api_key", try_from = "Column<KeyId>")]
    pub key: KeyId,
    /// The agent that took it.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// Message for people.
    pub message: String,
    /// Name, unique in the tenant. A snapshot with a name is kept.
    pub name: Option<String>,
    /// Time at which it was recorded.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
}

/// A list of the snapshots of a tenant, newest first: by time, then by id, both
/// descending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotQuery {
    /// Only snapshots of this tenant.
    pub tenant: TenantId,
    /// Only snapshots that this agent has taken.
    pub agent: Option<AgentId>,
    /// Only snapshots of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Only snapshots whose name begins with exactly this. An empty prefix does
    /// not filter.
    pub name_prefix: Option<String>,
    /// Only snapshots after this one: its time and id.
    pub after: Option<(Timestamp, SnapshotId)>,
    /// Maximum number of snapshots: 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    pub limit: u32,
}

impl SnapshotQuery {
    /// The first page of all snapshots of a tenant.
    pub fn of(tenant: TenantId) -> Self {
        Self {
            tenant,
            agent: None,
            workspace: None,
            name_prefix: None,
            after: None,
            limit: crate::limits::MAX_PAGE,
        }
    }
}
