use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request to take a snapshot of a workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TakeSnapshot {
    /// Message of the snapshot.
    #[serde(default)]
    #[schema(max_length = 10000)]
    pub message: String,
    /// Name of the snapshot, unique in the tenant. A snapshot with a name is kept
    /// until the name is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
}

/// A snapshot that was taken of a workspace or created from an archive, and
/// stored durably.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotTaken {
    /// Id of the snapshot; that of the previous snapshot if nothing changed.
    pub id: String,
    /// Hash of the files: two snapshots with the same `tree` have the same paths,
    /// contents and modes. All zeros for an empty tree.
    pub tree: String,
    /// Whether a new snapshot was stored.
    pub is_new: bool,
    /// Kinds of entries and attributes that the snapshot does not keep, each
    /// with a count and an example.
    pub not_kept: Vec<String>,
}

/// A snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Id of the snapshot.
    pub id: String,
    /// Hash of the files: two snapshots with the same `tree` have the same paths,
    /// contents and modes. All zeros for an empty tree.
    pub tree: String,
    /// Name of the snapshot. A snapshot with a name is kept until the name is
    /// removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The workspace that the snapshot was taken of. It may be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The agent that took the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The key of the request that took or named the snapshot; absent if the
    /// server created it and it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Message of the snapshot.
    pub message: String,
    /// When the snapshot was taken.
    pub created_at: String,
}

/// A page of snapshots.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotPage {
    /// The snapshots, newest first.
    pub items: Vec<Snapshot>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Request to set or remove the name of a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeSnapshot {
    /// New name, unique in the tenant; null removes the name.
    // With this attribute the field is required, although null is allowed.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, min_length = 1, max_length = 100)]
    pub name: Option<String>,
}

/// Request to restore a workspace to a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restore {
    /// Id or name of the snapshot. Changes since the last snapshot of the
    /// workspace are discarded.
    pub snapshot: String,
}

/// Kind of a change to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The path was added.
    Added,
    /// The path was removed.
    Removed,
    /// The content, type or mode changed.
    Changed,
}

/// A change to a path.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Path from the root of the workspace or project. Bytes that are not UTF-8
    /// are written as `\xNN`.
    pub path: String,
    /// Type of the entry before the change: `file`, `directory` or `symlink`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Type of the entry after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Numbers of added, removed and changed paths.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DiffTotals {
    /// Paths that were added.
    pub added: u64,
    /// Paths that were removed.
    pub removed: u64,
    /// Paths that changed in content, type or mode.
    pub changed: u64,
}

/// Changes of a workspace since a snapshot, or between two versions or
/// snapshots.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// The snapshot that the changes are relative to.
    pub base: String,
    /// The changes, ordered by path; at most `limit`.
    pub changes: Vec<Change>,
    /// Number of changes, including those that `changes` omits.
    pub totals: DiffTotals,
    /// Whether `changes` omits some changes.
    pub truncated: bool,
}

/// Number of lines that changed in a workspace, or between two versions or
/// snapshots.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffStat {
    /// The snapshot that the changes are relative to.
    pub base: String,
    /// Number of changed paths.
    pub files: u64,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
    /// The numbers of lines for each path; at most `limit` paths.
    pub changes: Vec<FileStat>,
    /// Whether `changes` omits some changes.
    pub truncated: bool,
}

/// Form of a diff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiffFormat {
    /// A list of changes.
    #[default]
    Json,
    /// A patch for `git apply`.
    Patch,
    /// The numbers of changed lines.
    Stat,
}

/// The changes, or the numbers of changed lines with `format=stat`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum DiffOrStat {
    /// The changes.
    Changes(Diff),
    /// The numbers of changed lines.
    Stat(DiffStat),
}

/// Number of changed lines in a file.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileStat {
    /// The path.
    pub path: String,
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Number of added lines; absent if the file is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Number of removed lines; absent if the file is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}
