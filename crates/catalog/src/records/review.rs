use elevo_core::{AgentId, ProjectId, ReviewId, TenantId, Timestamp, TreePath, WorkspaceId};
use elevo_objects::{Entry, SnapshotId};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::columns::{Column, Optional, stored};
use crate::query::Position;

/// A held change that waits for a decision.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Review {
    /// Id, unique among the reviews of all tenants.
    #[sqlx(try_from = "Column<ReviewId>")]
    pub id: ReviewId,
    /// The tenant it belongs to.
    #[sqlx(try_from = "Column<TenantId>")]
    pub tenant: TenantId,
    /// The project that the change is for.
    #[sqlx(try_from = "Column<ProjectId>")]
    pub project: ProjectId,
    /// The workspace that the change comes from. It has at most one open review
    /// for a path.
    #[sqlx(try_from = "Optional<WorkspaceId>")]
    pub workspace: Option<WorkspaceId>,
    /// The agent whose work it is.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// The path of the change.
    #[sqlx(try_from = "Column<TreePath>")]
    pub path: TreePath,
    /// The reason why the change is held: a conflict, a protected path and so on.
    pub kind: String,
    /// The versions to choose from.
    #[sqlx(flatten)]
    pub sides: Sides,
    /// The merge algorithm that was tried.
    pub algorithm: String,
    /// Whether it is open, or how it ended.
    #[sqlx(try_from = "Column<ReviewState>")]
    pub state: ReviewState,
    /// Summary to show in lists. The catalog does not interpret it.
    #[sqlx(try_from = "Column<Value>")]
    pub detail: Value,
    /// Time at which it was opened.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
    /// Time at which an open review expires.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub expires: Option<Timestamp>,
    /// Time at which it ended.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub closed: Option<Timestamp>,
    /// The principal that ended it.
    pub closed_by: Option<String>,
    /// The decision. The catalog does not interpret it.
    #[sqlx(try_from = "Optional<Value>")]
    pub resolution: Option<Value>,
    /// Id of the review that superseded it.
    #[sqlx(try_from = "Optional<ReviewId>")]
    pub successor: Option<ReviewId>,
    /// Number of times it was reopened, or changed while it was open.
    #[sqlx(try_from = "Column<u32>")]
    pub reopened: u32,
}

impl Review {
    /// Its position in a list; see [`ReviewQuery`].
    pub fn position(&self) -> Position {
        Position {
            created: self.created,
            id: self.id.to_string(),
        }
    }
}

/// The three versions of a path that a review is about, and their snapshots,
/// which are kept while the review is open.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Sides {
    /// The entry that both sides started from; `None` if there was none.
    #[sqlx(try_from = "Optional<Entry>")]
    pub base: Option<Entry>,
    /// The entry in the project; `None` if there is none.
    #[sqlx(try_from = "Optional<Entry>")]
    pub ours: Option<Entry>,
    /// The entry in the workspace; `None` if there is none.
    #[sqlx(try_from = "Optional<Entry>")]
    pub theirs: Option<Entry>,
    /// The snapshot with the base.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub base_snapshot: SnapshotId,
    /// The snapshot with the project's entry.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub ours_snapshot: SnapshotId,
    /// The snapshot with the workspace's entry.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub theirs_snapshot: SnapshotId,
}

impl Sides {
    /// Returns the snapshots that must be kept while the review is open.
    pub(crate) fn snapshots(&self) -> [SnapshotId; 3] {
        [self.base_snapshot, self.ours_snapshot, self.theirs_snapshot]
    }
}

/// Whether a review is open, or how it ended.
///
/// ```text
/// (new) ─► open ─► superseded
///          ▲  └──► resolved, rejected, expired
///          └───────────────┘
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum ReviewState {
    /// It waits for a decision.
    Open,
    /// The content of the path was decided.
    Resolved,
    /// The change was rejected.
    Rejected,
    /// A newer merge of the same workspace replaced it.
    Superseded,
    /// No decision was made in time.
    Expired,
}

impl ReviewState {
    /// Returns whether a review may go from this state to `next`. An open review
    /// may stay open: its sides have changed.
    pub const fn can_become(self, next: Self) -> bool {
        match self {
            Self::Open => true,
            Self::Resolved | Self::Rejected | Self::Expired => matches!(next, Self::Open),
            Self::Superseded => false,
        }
    }
}

/// A change of a review. Fields that are `None` stay as they are, but reopening a
/// review deletes the fields that record its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewChange {
    /// The state that the review must be in.
    pub from: ReviewState,
    /// The new state; must be one that `from` can become. A change to `Open`
    /// counts as reopening.
    pub to: ReviewState,
    /// The principal that ends the review.
    pub by: Option<String>,
    /// The decision.
    pub resolution: Option<Value>,
    /// Id of the review that supersedes it.
    pub successor: Option<ReviewId>,
    /// New versions to choose from.
    pub sides: Option<Sides>,
    /// New summary to show in lists.
    pub detail: Option<Value>,
    /// New time of expiry.
    pub expires: Option<Option<Timestamp>>,
}

impl ReviewChange {
    /// A change from one state to another, and of nothing else.
    pub const fn new(from: ReviewState, to: ReviewState) -> Self {
        Self {
            from,
            to,
            by: None,
            resolution: None,
            successor: None,
            sides: None,
            detail: None,
            expires: None,
        }
    }
}

/// A list of reviews, oldest first: by time of opening, then by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewQuery {
    /// The tenant of the reviews.
    pub tenant: TenantId,
    /// Only reviews of this project.
    pub project: Option<ProjectId>,
    /// Only reviews of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Only reviews in this state.
    pub state: Option<ReviewState>,
    /// Only reviews after this position.
    pub after: Option<Position>,
    /// Maximum number of reviews: 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    pub limit: u32,
}

impl ReviewQuery {
    /// The first page of all reviews of a tenant.
    pub const fn of(tenant: TenantId) -> Self {
        Self {
            tenant,
            project: None,
            workspace: None,
            state: None,
            after: None,
            limit: crate::limits::MAX_PAGE,
        }
    }
}

stored!(variant ReviewState);
