//! Snapshots that must be kept.

use elevo_objects::SnapshotId;

/// A page of the snapshots that must be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// Some of the snapshots. May be empty though there are more.
    pub snapshots: Vec<SnapshotId>,
    /// Whether the snapshots are needed only as versions of projects.
    pub versions: bool,
    /// The cursor to continue at; `None` at the end.
    pub next: Option<RootPlace>,
}

/// The cursor of a walk over all snapshots that must be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootPlace(pub(crate) WalkPart);

/// The parts of a walk, in their order. Each has the key of the record that was
/// read last; the key is empty at the start of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WalkPart {
    /// The head of a project, by project id.
    Heads { after: String },
    /// A landing, by project and sequence number.
    Landings { project: String, sequence: u64 },
    /// A tag, by project and name.
    Tags { project: String, name: String },
    /// The base and synced head of a workspace, by id.
    Workspaces { after: String },
    /// The sides of an open review, by id.
    Reviews { after: String },
    /// A snapshot with a name, by name.
    Named { after: String },
}

impl WalkPart {
    /// Returns the beginning of a walk.
    pub(crate) const fn first() -> Self {
        Self::Heads {
            after: String::new(),
        }
    }
}
