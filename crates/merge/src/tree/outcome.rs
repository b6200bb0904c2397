//! The result of merging trees.

use std::fmt;

use elevo_core::TreePath;
use elevo_engine::StateTree;
use elevo_objects::Entry;
use elevo_policy::Refusal;

use crate::driver::Hunk;

/// The result of a merge of trees.
#[derive(Debug)]
pub struct TreeMerge {
    /// Ours, with all landed changes. Not stored yet.
    pub tree: StateTree,
    /// The base, with all changes of theirs that have been dealt with: the base
    /// of theirs' next merge. Held and refused changes are not in it, so that
    /// the next merge finds them again. Not stored yet.
    pub agreed: StateTree,
    /// Changes that are now in `tree`, sorted by path.
    pub landed: Vec<Landed>,
    /// Changes that need a decision. `tree` has ours there.
    pub conflicts: Vec<Conflict>,
    /// Changes that their agent may not make, and files that still have
    /// conflict markers.
    pub refused: Vec<Refused>,
    /// Changes that lost, where they conflicted, against an agent of higher
    /// priority. The rest of such a change may be in `landed`.
    pub overruled: Vec<Overruled>,
    /// Number of changes that ours already had.
    pub same: u64,
    /// Number of changes that are never merged; a directory counts as one.
    pub local: u64,
    /// Number of paths that theirs lacks because its agent cannot see them.
    pub hidden: u64,
}

impl TreeMerge {
    pub(super) fn new(tree: StateTree, agreed: StateTree) -> Self {
        Self {
            tree,
            agreed,
            landed: Vec::new(),
            conflicts: Vec::new(),
            refused: Vec::new(),
            overruled: Vec::new(),
            same: 0,
            local: 0,
            hidden: 0,
        }
    }

    /// Whether every change of theirs has been dealt with. If so, `agreed`
    /// equals theirs and need not be computed.
    pub fn is_complete(&self) -> bool {
        self.conflicts.is_empty() && self.refused.is_empty() && (self.local, self.hidden) == (0, 0)
    }
}

/// A change that is in the merged tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The path in the merged tree.
    pub path: TreePath,
    /// The earlier path, if it differs from `path`: the path in ours if theirs
    /// moved the entry; the path in theirs if the entry landed at another path,
    /// because ours has another entry there or moved this one.
    pub from: Option<TreePath>,
    /// The entry in ours.
    pub before: Option<Entry>,
    /// The entry in the merged tree.
    pub after: Option<Entry>,
    /// Number of entries: more than one if a directory was taken or removed as
    /// a whole.
    pub entries: u64,
    /// The method: `take` if only theirs changed the entry, otherwise the
    /// driver's name, `mode`, `last-writer`, `priority` or `renamed`.
    pub algorithm: &'static str,
}

/// A change that needs a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path of the conflict.
    pub path: TreePath,
    /// The path in the base, if it differs.
    pub from: Option<TreePath>,
    /// The reason for the conflict.
    pub kind: ConflictKind,
    /// The entry in the base.
    pub base: Option<Entry>,
    /// The entry in ours, which the merged tree keeps.
    pub ours: Option<Entry>,
    /// The entry in theirs.
    pub theirs: Option<Entry>,
    /// The driver that could not merge the file; `none` if no driver was tried.
    pub algorithm: &'static str,
    /// The conflicting places within a file, if known.
    pub hunks: Vec<Hunk>,
    /// The suggested decision.
    pub suggestion: Suggestion,
    /// The reason for the suggestion, for people.
    pub reason: &'static str,
}

/// A way to resolve a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// Keep ours.
    Ours,
    /// Take theirs.
    Theirs,
    /// Write this content.
    Content(Vec<u8>),
}

/// The reason why a change does not land without a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConflictKind {
    /// Both changed the same part of a file.
    Content,
    /// Both created an entry of this name.
    BothAdded,
    /// Ours removed an entry that theirs changed.
    RemovedByUs,
    /// Theirs removed an entry that ours changed.
    RemovedByThem,
    /// A file on one side is a directory on the other.
    FileAgainstDirectory,
    /// Both changed the kind of the entry, or the target of a link.
    Kind,
    /// Both sides moved the entry, one side moved an entry that the other
    /// removed, or theirs changed an entry that ours moved and the change
    /// cannot land at the new path.
    Renamed,
    /// The policy requires a decision on every change of this path.
    Protected,
    /// The file is too large to be merged.
    TooLarge,
}

impl ConflictKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Content,
        Self::BothAdded,
        Self::RemovedByUs,
        Self::RemovedByThem,
        Self::FileAgainstDirectory,
        Self::Kind,
        Self::Renamed,
        Self::Protected,
        Self::TooLarge,
    ];

    /// The name of the kind in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::BothAdded => "both-added",
            Self::RemovedByUs => "removed-in-project",
            Self::RemovedByThem => "removed-in-workspace",
            Self::FileAgainstDirectory => "file-against-directory",
            Self::Kind => "kind",
            Self::Renamed => "renamed",
            Self::Protected => "protected",
            Self::TooLarge => "too-large",
        }
    }
}

/// A change that does not land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The path of the change.
    pub path: TreePath,
    /// The reason.
    pub why: RefusalReason,
}

impl Refused {
    pub(super) fn by_policy(path: TreePath, refusal: Refusal) -> Self {
        let why = RefusalReason::Policy(refusal);
        Self { path, why }
    }
}

/// The reason why a change does not land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The policy does not let the agent make the change.
    Policy(Refusal),
    /// The file still has the conflict markers that a refresh wrote into it.
    Markers(TreePath),
}

impl RefusalReason {
    /// Returns advice for the agent that made the change.
    pub fn remedy(&self) -> String {
        match self {
            Self::Policy(refusal) => refusal.remedy(),
            Self::Markers(_) => {
                "Edit the file until it is right, and remove the lines that begin with \
                 `<<<<<<<`, `|||||||`, `=======` and `>>>>>>>`, then merge again."
                    .to_owned()
            }
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(refusal) => refusal.fmt(f),
            Self::Markers(path) => {
                write!(f, "`{path}` still has conflict markers from a refresh")
            }
        }
    }
}

/// A change that lost against an agent of higher priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overruled {
    /// The path of the change.
    pub path: TreePath,
    /// The entry that was kept.
    pub ours: Option<Entry>,
    /// The entry in theirs.
    pub theirs: Option<Entry>,
}
