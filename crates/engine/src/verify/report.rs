//! The result of a verification.

use elevo_core::TreePath;
use elevo_objects::{ObjectKey, SnapshotId};

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Objects that were read and hashed.
    pub objects: u64,
    /// Total bytes of those objects.
    pub bytes: u64,
    /// Snapshots that were walked.
    pub snapshots: u64,
    /// Refs that were looked up.
    pub references: u64,
    /// Damaged or missing objects, up to a limit.
    pub damage: Vec<Damage>,
    /// Number of damaged objects beyond the limit; an object that many trees
    /// need may be counted more than once.
    pub more_damage: u64,
    /// Parts of the store's lists that cannot be read. Needed objects in them
    /// are among the damage, if they cannot be read by key either.
    pub gaps: u64,
    /// Refs that do not point to a readable snapshot, up to a limit.
    pub lost_references: Vec<String>,
    /// Number of such refs beyond the limit.
    pub more_lost_references: u64,
    /// Snapshots that need a damaged object.
    pub snapshots_touched: u64,
    /// Paths that need a damaged object, summed over all snapshots: a path in
    /// ten snapshots counts ten times.
    pub paths_touched: u64,
}

impl Verified {
    /// Whether no damage was found.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty() && self.gaps == 0 && self.lost_references.is_empty()
    }
}

/// A damaged or missing object or snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Key of the object.
    pub key: ObjectKey,
    /// The kind of damage.
    pub kind: DamageKind,
    /// Whether a snapshot or a ref needs it.
    pub needed: bool,
    /// Paths that need it, up to a limit for all damage together.
    pub paths: Vec<DamagedPath>,
}

/// A kind of damage to an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageKind {
    /// The object is not stored.
    #[error("missing")]
    Missing,
    /// The store cannot read the object.
    #[error("unreadable ({0})")]
    Unreadable(String),
    /// The object's bytes do not match its hash.
    #[error("does not match its hash")]
    HashMismatch,
    /// The object's bytes match its hash but do not decode.
    #[error("matches its hash but does not decode")]
    Undecodable,
}

/// A path that needs a damaged object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPath {
    /// The snapshot that contains the path.
    pub snapshot: SnapshotId,
    /// The path; for a time tree, the directory whose times these are.
    pub path: TreePath,
}
