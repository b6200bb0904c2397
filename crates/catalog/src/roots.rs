//! Which snapshots must stay.

use elevo_objects::SnapshotId;

/// A part of the snapshots that must stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// Some of them. May be none though there are more.
    pub snapshots: Vec<SnapshotId>,
    /// Whether they are here only as versions of projects.
    pub versions: bool,
    /// Where to go on; `None` at the end.
    pub next: Option<RootPlace>,
}

/// A place in a walk over all snapshots that must stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootPlace(pub(crate) Place);

/// The parts of a walk, in its order; each with what was read last, if
/// anything of it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The head of a project, by id.
    Heads { after: String },
    /// A landing, by project and number.
    Landings { project: String, sequence: u64 },
    /// A tag, by project and name.
    Tags { project: String, name: String },
    /// A workspace, by id.
    Workspaces { after: String },
    /// An open review, by id.
    Reviews { after: String },
}
