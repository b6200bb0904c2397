use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_objects::{Entry, SnapshotId};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::query::Position;

/// A change that waits for somebody to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// Its id; no other review of any tenant has it.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// The project that the change is for.
    pub project: String,
    /// The workspace that the change comes from. It has at most one open
    /// review for a path.
    pub workspace: Option<String>,
    /// Whose work it is.
    pub agent: Option<String>,
    /// Which path.
    pub path: TreePath,
    /// Why it is held: a conflict, a protected path and so on.
    pub kind: String,
    /// What there is to choose from.
    pub sides: Sides,
    /// How merging was tried.
    pub algorithm: String,
    /// Whether it is open, or how it ended.
    pub state: ReviewState,
    /// What there is to see of it at a glance, as the caller writes it.
    pub detail: Value,
    /// When it was opened.
    pub created: Timestamp,
    /// From when on nobody needs to decide any more.
    pub expires: Option<Timestamp>,
    /// When it ended.
    pub closed: Option<Timestamp>,
    /// Who ended it.
    pub closed_by: Option<String>,
    /// What was decided, as the caller writes it.
    pub resolution: Option<Value>,
    /// The review that took its place.
    pub successor: Option<String>,
    /// How many times it was opened again.
    pub reopened: u32,
}

impl Review {
    /// Where it stands in a list; see [`ReviewQuery`].
    pub fn position(&self) -> Position {
        Position {
            created: self.created,
            id: self.id.clone(),
        }
    }
}

/// The three versions of a path that a review is about, and the snapshots they
/// are in, which stay as long as it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    /// What both sides began with; `None` is nothing.
    pub base: Option<Entry>,
    /// What the project has; `None` is nothing.
    pub ours: Option<Entry>,
    /// What the workspace has; `None` is nothing.
    pub theirs: Option<Entry>,
    /// Where the base is from.
    pub base_snapshot: SnapshotId,
    /// Where the project's is from.
    pub ours_snapshot: SnapshotId,
    /// Where the workspace's is from.
    pub theirs_snapshot: SnapshotId,
}

impl Sides {
    /// All that must stay for as long as the review is open.
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
    /// Somebody must decide.
    Open,
    /// It was decided what the path should be.
    Resolved,
    /// The change was turned down.
    Rejected,
    /// A newer merge of the same workspace took its place.
    Superseded,
    /// Nobody decided in time.
    Expired,
}

impl ReviewState {
    /// Whether a review may go from this state to `next`. An open one may stay
    /// open: what is chosen from has changed.
    pub const fn can_become(self, next: Self) -> bool {
        match self {
            Self::Open => true,
            Self::Resolved | Self::Rejected | Self::Expired => matches!(next, Self::Open),
            Self::Superseded => false,
        }
    }
}

/// What to change in a review. What is `None` stays as it is, but what ended a
/// review is forgotten when it opens again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewChange {
    /// The state it must be in for this to happen.
    pub from: ReviewState,
    /// The state to go to; must be one that `from` can become. To `Open`
    /// counts as opening again.
    pub to: ReviewState,
    /// Who ends it.
    pub by: Option<String>,
    /// What was decided.
    pub resolution: Option<Value>,
    /// The review that takes its place.
    pub successor: Option<String>,
    /// What there is to choose from.
    pub sides: Option<Sides>,
    /// What there is to see of it at a glance.
    pub detail: Option<Value>,
    /// From when on nobody needs to decide any more.
    pub expires: Option<Option<Timestamp>>,
}

impl ReviewChange {
    /// From one state to another, and nothing else.
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

/// Which reviews to list, oldest first: by the time they were opened, then by
/// id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only those of this project.
    pub project: Option<String>,
    /// Only those of this workspace.
    pub workspace: Option<String>,
    /// Only those in this state.
    pub state: Option<ReviewState>,
    /// Only those that come after this place.
    pub after: Option<Position>,
    /// How many: 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    pub limit: u32,
}

impl ReviewQuery {
    /// The first page of all that a tenant has.
    pub const fn of(tenant: TenantId) -> Self {
        Self {
            tenant,
            project: None,
            workspace: None,
            state: None,
            after: None,
            limit: crate::MAX_PAGE,
        }
    }
}
