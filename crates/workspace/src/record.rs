use elevo_core::Timestamp;
use elevo_engine::Owner;
use elevo_objects::SnapshotId;
use serde::{Deserialize, Serialize};

use crate::id::WorkspaceId;
use crate::provider::ProviderKind;

/// What is kept of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is called.
    pub id: WorkspaceId,
    /// Whether it has a directory.
    pub state: State,
    /// How its directory is made.
    pub provider: ProviderKind,
    /// The snapshot that its directory was made from.
    pub origin: SnapshotId,
    /// The snapshot that it was made from, or that was last taken of it.
    pub base: SnapshotId,
    /// When it was made.
    pub created: Timestamp,
    /// How many bytes can be changed in it.
    pub limit: Option<u64>,
    /// Whose the files in its directory are, if not its maker's.
    pub owner: Option<Owner>,
    /// What its home held when it was last parked, if anything.
    pub home: Option<SnapshotId>,
    /// Whether nobody can write into its directory, which then holds its base.
    pub read_only: bool,
    /// The snapshot that its directory was being brought to when that was cut
    /// off: it holds some of that and some of what was there before. `None`
    /// once it has been brought to one.
    pub unfinished: Option<SnapshotId>,
}

/// Whether a workspace has a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has one.
    Live,
    /// It is in the store only, as its snapshot.
    Parked,
}

/// A record as it is written.
#[derive(Serialize, Deserialize)]
pub(crate) struct Written {
    id: String,
    state: State,
    provider: ProviderKind,
    origin: String,
    base: String,
    created: (i64, u32),
    limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<(u32, u32)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    home: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    read_only: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unfinished: Option<String>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it by reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

impl From<&Record> for Written {
    fn from(record: &Record) -> Self {
        Self {
            id: record.id.to_string(),
            state: record.state,
            provider: record.provider,
            origin: record.origin.to_string(),
            base: record.base.to_string(),
            created: (record.created.seconds(), record.created.nanos()),
            limit: record.limit,
            owner: record.owner.map(|owner| (owner.uid, owner.gid)),
            home: record.home.map(|home| home.to_string()),
            read_only: record.read_only,
            unfinished: record.unfinished.map(|target| target.to_string()),
        }
    }
}

impl Written {
    pub(crate) fn read(self) -> Option<Record> {
        Some(Record {
            id: self.id.parse().ok()?,
            state: self.state,
            provider: self.provider,
            origin: self.origin.parse().ok()?,
            base: self.base.parse().ok()?,
            created: Timestamp::new(self.created.0, self.created.1)?,
            limit: self.limit,
            owner: self.owner.map(|(uid, gid)| Owner { uid, gid }),
            home: self.home.map(|home| home.parse()).transpose().ok()?,
            read_only: self.read_only,
            unfinished: self
                .unfinished
                .map(|target| target.parse())
                .transpose()
                .ok()?,
        })
    }
}
