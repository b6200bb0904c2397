use elevo_core::{TenantId, Timestamp};
use elevo_objects::SnapshotId;
use serde_json::Value;

use super::retention::Retention;
use crate::query::Position;

/// A shared, versioned tree of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its id; no other project of any tenant has it.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// What people call it; no other project of the tenant is called so.
    pub name: String,
    /// What it is for, in words for people.
    pub description: Option<String>,
    /// The newest snapshot of the shared tree.
    pub head: SnapshotId,
    /// How many times the head has moved.
    pub sequence: u64,
    /// How many times its policy was set since it was made: who has read the
    /// policy of that version need not read it again.
    pub policy_version: u64,
    /// Which versions keep their content.
    pub retention: Retention,
    /// When it was made.
    pub created: Timestamp,
    /// When something of this was last changed.
    pub updated: Timestamp,
    /// Whether it is being removed. There is no way back.
    pub removing: bool,
}

impl Project {
    /// Where it stands in a list; see [`ProjectQuery`].
    pub fn position(&self) -> Position {
        Position {
            created: self.created,
            id: self.id.clone(),
        }
    }
}

/// Who may do what in a project. Not a part of [`Project`], because it can be
/// large and changes seldom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectPolicy {
    /// How many times it was set since the project was made.
    pub version: u64,
    /// What it says, as the caller writes it.
    pub policy: Value,
}

/// What to change in a project. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectChange {
    /// What people call it.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<Option<String>>,
    /// Which versions keep their content.
    pub retention: Option<Retention>,
}

/// Which projects to list, newest first: by the time they were made, then by
/// id, both descending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectQuery {
    /// Whose; `None` is everybody's.
    pub tenant: Option<TenantId>,
    /// Only those that are, or are not, being removed.
    pub removing: Option<bool>,
    /// Only those that come after this place.
    pub after: Option<Position>,
    /// How many: 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    pub limit: u32,
}

impl Default for ProjectQuery {
    /// The first page of everything.
    fn default() -> Self {
        Self {
            tenant: None,
            removing: None,
            after: None,
            limit: crate::MAX_PAGE,
        }
    }
}
