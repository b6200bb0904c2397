use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A wish for a snapshot of a sandbox's workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TakeSnapshot {
    /// What it is.
    #[serde(default)]
    #[schema(max_length = 10000)]
    pub message: String,
}

/// A snapshot that was taken. It is durable.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotTaken {
    /// Its id; that of the one before if nothing had changed.
    pub snapshot_id: String,
    /// Whether it is a new one.
    pub is_new: bool,
    /// What is not kept in it, each kind once.
    pub not_kept: Vec<String>,
}

/// A snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// Those it was made from.
    pub parents: Vec<String>,
    /// Who made it.
    pub author: String,
    /// What it is.
    pub message: String,
    /// When it was made.
    pub created_at: String,
}

/// A snapshot that was made from an archive.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    /// Its id.
    pub snapshot_id: String,
    /// What is not kept in it, each kind once.
    pub not_kept: Vec<String>,
}

/// What a workspace shall hold.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restore {
    /// A snapshot. What was changed and not snapshotted is lost.
    pub snapshot_id: String,
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It is another.
    Changed,
}

/// A change.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// Where, from the root of the workspace; bytes that are no text are
    /// written as `\xNN`.
    pub path: String,
    /// What was there: `file`, `executable`, `directory` or `symlink`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// How much has changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DiffTotals {
    /// Paths that are new.
    pub added: u64,
    /// Paths that are gone.
    pub removed: u64,
    /// Paths that are others.
    pub changed: u64,
}

/// What has changed in a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// The snapshot that it is compared with.
    pub base: String,
    /// The changes, in the order of their paths; at most `limit`.
    pub changes: Vec<Change>,
    /// How much in all.
    pub totals: DiffTotals,
    /// Whether `changes` leaves some out.
    pub truncated: bool,
}

/// How many lines have changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffStat {
    /// The snapshot that it is compared with.
    pub base: String,
    /// Paths that have changed.
    pub files: u64,
    /// Lines that are new.
    pub added: u64,
    /// Lines that are gone.
    pub removed: u64,
    /// The same for each path; at most `limit`.
    pub changes: Vec<FileStat>,
    /// Whether `changes` leaves some out.
    pub truncated: bool,
}

/// How many lines of a file have changed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileStat {
    /// Where.
    pub path: String,
    /// What happened.
    pub kind: ChangeKind,
    /// Lines that are new; none if it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Lines that are gone; none if it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}
