use elevo_core::{AgentId, Timestamp, TreePath, WorkspaceId};
use elevo_objects::{Entry, SnapshotId};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::columns::{Column, Optional, stored};

/// The change of one path by a landing. A directory that is added, deleted or
/// replaced as a whole is one record, even with a million files in it.
///
/// A rename is two records: `renamed` for the new path, `removed` for the old
/// one.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct PathChange {
    /// The changed path. A landing has at most one change of a path.
    #[sqlx(try_from = "Column<TreePath>")]
    pub path: TreePath,
    /// The kind of change.
    #[sqlx(try_from = "Column<VersionKind>")]
    pub kind: VersionKind,
    /// The old path, if the entry was renamed.
    #[sqlx(rename = "origin", try_from = "Optional<TreePath>")]
    pub from: Option<TreePath>,
    /// The entry before; `None` if there was none.
    #[sqlx(rename = "entry_before", try_from = "Optional<Entry>")]
    pub before: Option<Entry>,
    /// The entry after; `None` if there is none.
    #[sqlx(rename = "entry_after", try_from = "Optional<Entry>")]
    pub after: Option<Entry>,
    /// Number of files in the change: 1 for a file, all files below for a whole
    /// directory, 0 for a directory without its content.
    #[sqlx(try_from = "Column<u64>")]
    pub files: u64,
    /// The algorithm that merged it: `take`, `text`, `json` and so on.
    pub algorithm: String,
}

impl PathChange {
    /// Returns whether the paths below change too: a directory was added, deleted
    /// or replaced with its content.
    pub fn is_whole(&self) -> bool {
        let is_directory = |entry: &Option<Entry>| matches!(entry, Some(Entry::Directory { .. }));
        self.files > 0
            && self.kind != VersionKind::Mode
            && (is_directory(&self.before) || is_directory(&self.after))
    }
}

/// Kinds of changes of a path.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum VersionKind {
    /// The path did not exist before.
    Added,
    /// The path had another content before.
    Modified,
    /// The path no longer exists.
    Removed,
    /// The entry was at another path before.
    Renamed,
    /// Only the permission bits changed.
    Mode,
}

/// A change of a path, as recorded in the history of a project.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct FileVersion {
    /// Sequence number of the landing.
    #[sqlx(try_from = "Column<u64>")]
    pub sequence: u64,
    /// The head after the landing.
    #[sqlx(try_from = "Column<SnapshotId>")]
    pub snapshot: SnapshotId,
    /// The change of the path.
    #[sqlx(flatten)]
    pub change: PathChange,
    /// The agent whose work it was.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// The workspace it came from.
    #[sqlx(try_from = "Optional<WorkspaceId>")]
    pub workspace: Option<WorkspaceId>,
    /// Time of the landing.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
}

stored!(variant VersionKind);
