use elevo_core::Timestamp;
use elevo_engine::Owner;
use elevo_objects::SnapshotId;
use serde::{Deserialize, Serialize};

use crate::provider::ProviderKind;
use elevo_core::WorkspaceId;

/// The record of a workspace in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The id of the workspace.
    pub id: WorkspaceId,
    /// Whether it has a directory.
    pub state: State,
    /// The provider that created its directory.
    pub provider: ProviderKind,
    /// The snapshot that its directory was created from.
    pub origin: SnapshotId,
    /// The snapshot that its work started from: the one that it, or the workspace
    /// that it was forked from, was created from; or that of its last merge.
    pub start: SnapshotId,
    /// The snapshot that the files are compared with to find changes: the
    /// newest of the one that the workspace was created from, those that it was
    /// restored or refreshed to, and those taken of it.
    pub base: SnapshotId,
    /// The time of its creation.
    pub created: Timestamp,
    /// Maximum bytes of changes in it.
    pub limit: Option<u64>,
    /// The owner of its files, if not the user who created it.
    pub owner: Option<Owner>,
    /// The snapshot of its home from when it was last parked, if the home was
    /// not empty.
    pub home: Option<SnapshotId>,
    /// Whether its directory is read-only. It then shows the base.
    pub read_only: bool,
    /// The target of a restore or refresh that was interrupted: the directory
    /// holds some files of that snapshot and some earlier ones. `None` after the
    /// next restore or refresh that completes.
    pub unfinished: Option<SnapshotId>,
}

impl Record {
    /// The snapshots that must not be deleted while the record exists.
    pub(crate) fn needs(&self) -> impl Iterator<Item = SnapshotId> {
        let always = [self.origin, self.start, self.base];
        let sometimes = self.home.into_iter().chain(self.unfinished);
        always.into_iter().chain(sometimes)
    }
}

/// Whether a workspace has a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has a directory.
    Live,
    /// It has no directory; its snapshot is in the store.
    Parked,
}

/// The JSON of a record in the log.
#[derive(Serialize, Deserialize)]
pub(crate) struct RecordJson {
    id: String,
    state: State,
    provider: ProviderKind,
    origin: String,
    /// Left out if it is the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<String>,
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

impl From<&Record> for RecordJson {
    fn from(record: &Record) -> Self {
        Self {
            id: record.id.to_string(),
            state: record.state,
            provider: record.provider,
            origin: record.origin.to_string(),
            start: (record.start != record.origin).then(|| record.start.to_string()),
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

impl RecordJson {
    pub(crate) fn parse(self) -> Option<Record> {
        let origin = self.origin.parse().ok()?;
        Some(Record {
            id: self.id.parse().ok()?,
            state: self.state,
            provider: self.provider,
            origin,
            start: match self.start {
                Some(start) => start.parse().ok()?,
                None => origin,
            },
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
