//! Calls to the store of another process and their answers, as JSON.

use std::time::Duration;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{Commit, Expected, Object, Recent, ReferenceUpdate, StoreError};
use elevo_objects::{Hash, Kind, ObjectKey, Snapshot, SnapshotId};
use serde::{Deserialize, Serialize};

/// Kind and hash of an object.
type WireKey = (u8, [u8; 32]);
pub(super) type Id = [u8; 32];

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Call {
    Get(Vec<WireKey>),
    Contains(Vec<WireKey>),
    Commit(WireCommit),
    Snapshots(Vec<Id>),
    ListSnapshots(Option<Id>, usize),
    SnapshotsSince(WireRecent, Option<Id>, usize),
    Reference(String),
    ListReferences(String, Option<String>, usize),
    StoredBytes,
    Hold(Vec<Id>),
    /// Drops a guard or a collection.
    Drop(u64),
    /// Begins a collection, a young one if true.
    Collect(bool),
    Collection(u64, Step),
}

/// A call of a collection.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Step {
    OlderWriters,
    Arrivals,
    Marked(Vec<WireKey>),
    Mark(Vec<WireKey>),
    Close,
    UnmarkedSnapshots(Option<Id>, usize),
    Remove(Vec<WireKey>),
    Sweep(bool),
    Finish,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) tenant: [u8; 16],
    pub(super) call: Call,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireCommit {
    objects: Vec<(WireKey, Vec<u8>)>,
    snapshots: Vec<Vec<u8>>,
    references: Vec<(String, WireExpected, Option<Id>)>,
}

#[derive(Debug, Serialize, Deserialize)]
enum WireExpected {
    Any,
    Absent,
    At(Id),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireRecent {
    age: Duration,
    now: (i64, u32),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WireError {
    ReferenceMoved(String, Option<Id>),
    Refused(String),
    Damaged(String),
    ReadOnly,
    Full,
    Unavailable(String),
    Lost,
    Unknown(String),
    Storage(String),
}

const KINDS: [Kind; 5] = [
    Kind::Chunk,
    Kind::Directory,
    Kind::Times,
    Kind::ChunkList,
    Kind::Snapshot,
];

pub(super) fn to_key(key: &ObjectKey) -> WireKey {
    let kind = KINDS.iter().position(|kind| *kind == key.kind).unwrap();
    (kind as u8, *key.hash.as_bytes())
}

pub(super) fn of_key((kind, hash): WireKey) -> ObjectKey {
    ObjectKey {
        kind: KINDS[usize::from(kind)],
        hash: Hash::from_bytes(hash),
    }
}

pub(super) fn to_keys(keys: &[ObjectKey]) -> Vec<WireKey> {
    keys.iter().map(to_key).collect()
}

pub(super) fn of_keys(keys: Vec<WireKey>) -> Vec<ObjectKey> {
    keys.into_iter().map(of_key).collect()
}

pub(super) fn to_id(id: SnapshotId) -> Id {
    *id.0.as_bytes()
}

pub(super) fn of_id(id: Id) -> SnapshotId {
    SnapshotId(Hash::from_bytes(id))
}

pub(super) fn to_ids(ids: &[SnapshotId]) -> Vec<Id> {
    ids.iter().copied().map(to_id).collect()
}

pub(super) fn of_ids(ids: Vec<Id>) -> Vec<SnapshotId> {
    ids.into_iter().map(of_id).collect()
}

/// Snapshots of a commit may be invalid, which is the answer then.
pub(super) fn to_snapshot(snapshot: &Snapshot) -> Result<Vec<u8>, StoreError> {
    let encoded = snapshot.encode();
    let (_, record) = encoded.map_err(|error| StoreError::Refused(error.to_string()))?;
    Ok(record.to_vec())
}

pub(super) fn of_snapshot(record: Vec<u8>) -> Snapshot {
    Snapshot::decode(&Bytes::from(record)).unwrap()
}

impl WireCommit {
    pub(super) fn of(commit: &Commit) -> Result<Self, StoreError> {
        assert!(
            commit.after.is_empty(),
            "writers belong to the other handle"
        );
        let object = |object: &Object| (to_key(&object.key), object.data.to_vec());
        let reference = |update: &ReferenceUpdate| {
            let expected = match update.expected {
                Expected::Any => WireExpected::Any,
                Expected::Absent => WireExpected::Absent,
                Expected::At(id) => WireExpected::At(to_id(id)),
            };
            (update.name.clone(), expected, update.target.map(to_id))
        };
        let snapshots: Result<_, _> = commit.snapshots.iter().map(to_snapshot).collect();
        Ok(Self {
            objects: commit.objects.iter().map(object).collect(),
            snapshots: snapshots?,
            references: commit.references.iter().map(reference).collect(),
        })
    }

    pub(super) fn read(self) -> Commit {
        let object = |(key, data): (WireKey, Vec<u8>)| Object {
            key: of_key(key),
            data: data.into(),
        };
        let reference = |(name, expected, target): (String, WireExpected, Option<Id>)| {
            let expected = match expected {
                WireExpected::Any => Expected::Any,
                WireExpected::Absent => Expected::Absent,
                WireExpected::At(id) => Expected::At(of_id(id)),
            };
            ReferenceUpdate {
                name,
                expected,
                target: target.map(of_id),
            }
        };
        Commit {
            objects: self.objects.into_iter().map(object).collect(),
            snapshots: self.snapshots.into_iter().map(of_snapshot).collect(),
            references: self.references.into_iter().map(reference).collect(),
            after: Vec::new(),
        }
    }
}

impl WireRecent {
    pub(super) fn of(recent: Recent) -> Self {
        Self {
            age: recent.age,
            now: (recent.now.seconds(), recent.now.nanos()),
        }
    }

    pub(super) fn read(self) -> Recent {
        Recent {
            age: self.age,
            now: Timestamp::new(self.now.0, self.now.1).unwrap(),
        }
    }
}

impl WireError {
    pub(super) fn of(error: StoreError) -> Self {
        match error {
            StoreError::ReferenceMoved { name, current } => {
                Self::ReferenceMoved(name, current.map(to_id))
            }
            StoreError::Refused(reason) => Self::Refused(reason),
            StoreError::Damaged(reason) => Self::Damaged(reason),
            StoreError::ReadOnly => Self::ReadOnly,
            StoreError::Full => Self::Full,
            StoreError::Unavailable(cause) => Self::Unavailable(cause.to_string()),
            StoreError::Lost => Self::Lost,
            StoreError::Unknown(cause) => Self::Unknown(cause.to_string()),
            StoreError::Storage(cause) => Self::Storage(cause.to_string()),
        }
    }

    pub(super) fn read(self) -> StoreError {
        match self {
            Self::ReferenceMoved(name, current) => StoreError::ReferenceMoved {
                name,
                current: current.map(of_id),
            },
            Self::Refused(reason) => StoreError::Refused(reason),
            Self::Damaged(reason) => StoreError::Damaged(reason),
            Self::ReadOnly => StoreError::ReadOnly,
            Self::Full => StoreError::Full,
            Self::Unavailable(cause) => StoreError::Unavailable(cause.into()),
            Self::Lost => StoreError::Lost,
            Self::Unknown(cause) => StoreError::Unknown(cause.into()),
            Self::Storage(cause) => StoreError::Storage(cause.into()),
        }
    }
}

pub(super) fn tenant(bytes: [u8; 16]) -> TenantId {
    TenantId::new(bytes)
}
