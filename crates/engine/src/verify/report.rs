use elevo_core::TreePath;
use elevo_objects::{ObjectKey, SnapshotId};

/// What going through a store came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Objects that were read and hashed.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Snapshots that were walked.
    pub snapshots: u64,
    /// References that were looked up.
    pub references: u64,
    /// What is damaged or missing, up to a number.
    pub damage: Vec<Damage>,
    /// How many more objects are; those that many trees need may be counted
    /// more than once.
    pub more_damage: u64,
    /// Parts of the store's lists that cannot be read. What is in them and
    /// needed is among the damage, if it cannot be read by itself either.
    pub gaps: u64,
    /// References that point to no snapshot that can be read, up to a number.
    pub lost_references: Vec<String>,
    /// How many more references do.
    pub more_lost_references: u64,
    /// Snapshots that need something of the damage.
    pub snapshots_touched: u64,
    /// Paths of all these that do: one in ten snapshots is ten.
    pub paths_touched: u64,
}

impl Verified {
    /// Whether all is as it was put.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty() && self.gaps == 0 && self.lost_references.is_empty()
    }
}

/// An object or a snapshot that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Which one.
    pub key: ObjectKey,
    /// What is wrong with it.
    pub problem: Problem,
    /// Whether a snapshot or a reference needs it.
    pub needed: bool,
    /// Who needs it, up to a number for all damage together.
    pub places: Vec<Place>,
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is not there.
    #[error("missing")]
    Missing,
    /// The store cannot read it.
    #[error("unreadable ({0})")]
    Unreadable(String),
    /// Its bytes are not those that its hash was made of.
    #[error("has other bytes than it was stored with")]
    OtherBytes,
    /// Its bytes are as they were stored, but mean nothing.
    #[error("was stored with bytes that mean nothing")]
    Meaningless,
}

/// A path that needs a damaged object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// In which snapshot.
    pub snapshot: SnapshotId,
    /// Where; of a time tree, the directory whose times are in question.
    pub path: TreePath,
}
