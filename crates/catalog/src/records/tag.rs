use elevo_core::{AgentId, KeyId, ProjectId, Timestamp};
use elevo_objects::SnapshotId;

use crate::columns::{Column, Optional};

/// A name for a version, which keeps the version's content.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Tag {
    /// Id of the project.
    #[sqlx(try_from = "Column<ProjectId>")]
    pub project: ProjectId,
    /// Name, unique in the project.
    pub name: String,
    /// The named version.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub snapshot: SnapshotId,
    /// The key of the request that set it.
    #[sqlx(rename = "api_key", try_from = "Column<KeyId>")]
    pub key: KeyId,
    /// The agent that set it.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// Message for people.
    pub message: String,
    /// Time at which it was set or last moved.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
}
