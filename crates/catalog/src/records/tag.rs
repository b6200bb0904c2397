use elevo_core::Timestamp;
use elevo_objects::SnapshotId;

/// A name of a version, which keeps its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Which project.
    pub project: String,
    /// What it is called; no other tag of the project is called so.
    pub name: String,
    /// The version.
    pub snapshot: SnapshotId,
    /// The key of who set it.
    pub key: String,
    /// The agent who set it.
    pub agent: Option<String>,
    /// Why, in words for people.
    pub message: String,
    /// When it was set, or moved.
    pub created: Timestamp,
}
