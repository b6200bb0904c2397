use elevo_core::{Timestamp, TreePath};
use elevo_objects::{Entry, SnapshotId};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// What a landing does to one path: to a file, or to a directory that is taken
/// whole, so that a million files are one record.
///
/// A rename is two of these: `renamed` where it went to, `removed` where it
/// came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// Which path. A landing has at most one change for each.
    pub path: TreePath,
    /// What happened to it.
    pub kind: VersionKind,
    /// Where it was before, if it was renamed.
    pub from: Option<TreePath>,
    /// What was there; `None` is nothing.
    pub before: Option<Entry>,
    /// What is there now; `None` is nothing.
    pub after: Option<Entry>,
    /// How many files this is about: 1 for a file, all that are below for a
    /// directory taken whole, 0 for a directory alone.
    pub files: u64,
    /// How it was merged: `take`, `text`, `json` and so on.
    pub algorithm: String,
}

impl PathChange {
    /// Whether it changes what is below the path too: a directory came, went
    /// or was replaced with all that is in it.
    pub fn is_whole(&self) -> bool {
        let is_directory = |entry: &Option<Entry>| matches!(entry, Some(Entry::Directory { .. }));
        self.files > 0
            && self.kind != VersionKind::Mode
            && (is_directory(&self.before) || is_directory(&self.after))
    }
}

/// What became of a path.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum VersionKind {
    /// Nothing was there before.
    Added,
    /// Something else was there before.
    Modified,
    /// Nothing is there now.
    Removed,
    /// It was at another path before.
    Renamed,
    /// Only its permission bits changed.
    Mode,
}

/// A change of a path as the history of a project has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// Which landing brought it.
    pub sequence: u64,
    /// The project's head since that landing.
    pub snapshot: SnapshotId,
    /// What it did.
    pub change: PathChange,
    /// Whose work it was.
    pub agent: Option<String>,
    /// The workspace it came from.
    pub workspace: Option<String>,
    /// When it landed.
    pub created: Timestamp,
}
