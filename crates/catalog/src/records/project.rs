use elevo_core::{ProjectId, TenantId, Timestamp};
use elevo_objects::SnapshotId;
use serde_json::Value;

use super::retention::Retention;
use crate::columns::Column;
use crate::query::Position;

/// A shared, versioned tree of files.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Project {
    /// Id, unique among the projects of all tenants.
    #[sqlx(try_from = "Column<ProjectId>")]
    pub id: ProjectId,
    /// The tenant it belongs to.
    #[sqlx(try_from = "Column<TenantId>")]
    pub tenant: TenantId,
    /// Display name, unique in the tenant.
    pub name: String,
    /// Description for people.
    pub description: Option<String>,
    /// The newest snapshot of the shared tree.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub head: SnapshotId,
    /// Number of times the head has moved.
    #[sqlx(try_from = "Column<u64>")]
    pub sequence: u64,
    /// Version of the policy: grows by 1 each time the policy is set. A caller
    /// that has read this version need not read the policy again.
    #[sqlx(try_from = "Column<u64>")]
    pub policy_version: u64,
    /// The versions that keep their content.
    #[sqlx(flatten)]
    pub retention: Retention,
    /// Time of creation.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
    /// Time of the last change of this record.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub updated: Timestamp,
    /// Whether it is being removed, which cannot be undone.
    pub removing: bool,
}

impl Project {
    /// Its position in a list; see [`ProjectQuery`].
    pub fn position(&self) -> Position {
        Position {
            created: self.created,
            id: self.id.to_string(),
        }
    }
}

/// The access rules of a project. Not a part of [`Project`], because a policy can
/// be large and seldom changes.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ProjectPolicy {
    /// Version of the policy; see [`Project::policy_version`].
    #[sqlx(rename = "policy_version", try_from = "Column<u64>")]
    pub version: u64,
    /// The rules. The catalog does not interpret them.
    #[sqlx(try_from = "Column<Value>")]
    pub policy: Value,
}

/// A change of a project. Fields that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectChange {
    /// New display name.
    pub name: Option<String>,
    /// New description.
    pub description: Option<Option<String>>,
    /// New retention.
    pub retention: Option<Retention>,
}

/// A list of projects, newest first: by time of creation, then by id, both
/// descending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectQuery {
    /// Only projects of this tenant; `None` for all tenants.
    pub tenant: Option<TenantId>,
    /// Only projects that are, or are not, being removed.
    pub removing: Option<bool>,
    /// Only projects after this position.
    pub after: Option<Position>,
    /// Maximum number of projects: 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    pub limit: u32,
}

impl Default for ProjectQuery {
    /// The first page of all projects.
    fn default() -> Self {
        Self {
            tenant: None,
            removing: None,
            after: None,
            limit: crate::limits::MAX_PAGE,
        }
    }
}
