//! What a merge of trees comes to.

use std::fmt;

use elevo_core::TreePath;
use elevo_engine::StateTree;
use elevo_objects::Entry;
use elevo_policy::Refusal;

use crate::driver::Hunk;

/// What became of every change.
#[derive(Debug)]
pub struct TreeMerge {
    /// Ours, with everything that landed. Not stored yet.
    pub tree: StateTree,
    /// The base, with everything of theirs that has been dealt with: the base
    /// of theirs' next merge. What was held or refused is in it as before, so
    /// that it comes up again. Not stored yet.
    pub agreed: StateTree,
    /// Changes that are in `tree` now, in the order of a walk.
    pub landed: Vec<Landed>,
    /// Changes that somebody must decide on. `tree` has ours there.
    pub conflicts: Vec<Conflict>,
    /// Changes that their agent may not make, or has not finished.
    pub refused: Vec<Refused>,
    /// Changes that lost against an agent of higher priority, where they
    /// conflicted. The rest of such a change may be in `landed`.
    pub overruled: Vec<Overruled>,
    /// Changes that ours had already.
    pub same: u64,
    /// Changes that are never merged; a directory counts as one.
    pub local: u64,
    /// What theirs does not have because its agent cannot see it.
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

    /// Whether every change of theirs has been dealt with: `agreed` is theirs
    /// then, and need not be computed.
    pub fn is_complete(&self) -> bool {
        self.conflicts.is_empty() && self.refused.is_empty() && (self.local, self.hidden) == (0, 0)
    }
}

/// A change that is in the merged tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    /// Where.
    pub path: TreePath,
    /// Where it was in ours, or what theirs called it, if that is not the same.
    pub from: Option<TreePath>,
    /// What ours had there.
    pub before: Option<Entry>,
    /// What is there now.
    pub after: Option<Entry>,
    /// How many entries this stands for: more than one if a directory was taken
    /// or removed whole.
    pub entries: u64,
    /// How it was merged: `take` if only theirs changed it, otherwise the
    /// driver's name, `mode`, `last-writer`, `priority` or `renamed`.
    pub algorithm: &'static str,
}

/// A change that somebody must decide on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Where.
    pub path: TreePath,
    /// Where it was in the base, if that is another place.
    pub from: Option<TreePath>,
    /// Why.
    pub kind: ConflictKind,
    /// What both began with.
    pub base: Option<Entry>,
    /// What is in the merged tree.
    pub ours: Option<Entry>,
    /// What theirs made of it.
    pub theirs: Option<Entry>,
    /// The driver that could not merge it; `none` if none was asked.
    pub algorithm: &'static str,
    /// The places within a file that conflict, if they can be told.
    pub hunks: Vec<Hunk>,
    /// What somebody may do who does not want to think.
    pub suggestion: Suggestion,
    /// Why that, in words for people.
    pub reason: &'static str,
}

/// A way to settle a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// Leave what is there.
    Ours,
    /// Take what theirs has.
    Theirs,
    /// Take this content.
    Content(Vec<u8>),
}

/// Why a change cannot land by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConflictKind {
    /// Both changed the same part of a file.
    Content,
    /// Both made something of that name.
    BothAdded,
    /// Ours removed what theirs changed.
    RemovedByUs,
    /// Theirs removed what ours changed.
    RemovedByThem,
    /// A file on one side is a directory on the other.
    FileAgainstDirectory,
    /// Both changed what kind of thing it is, or where a link leads.
    Kind,
    /// Both moved it, one moved what the other removed, or theirs changed what
    /// ours moved and the change cannot land there.
    Renamed,
    /// Changes of this path are always decided on by somebody.
    Protected,
    /// The file is too large to be merged.
    TooLarge,
}

impl ConflictKind {
    /// All of them.
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

    /// What programs call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::BothAdded => "both-added",
            Self::RemovedByUs => "removed-by-us",
            Self::RemovedByThem => "removed-by-them",
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
    /// Where.
    pub path: TreePath,
    /// Why not.
    pub why: Why,
}

impl Refused {
    pub(super) fn by_policy(path: TreePath, refusal: Refusal) -> Self {
        let why = Why::Policy(refusal);
        Self { path, why }
    }
}

/// Why a change does not land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its agent may not make it.
    Policy(Refusal),
    /// The file still has the conflict markers that a refresh wrote into it.
    Markers(TreePath),
}

impl Why {
    /// Returns advice for the agent that made the change.
    pub fn remedy(&self) -> String {
        match self {
            Self::Policy(refusal) => refusal.remedy(),
            Self::Markers(_) => {
                "Edit the file so that it is as it should be, without the lines that begin with \
                 `<<<<<<<`, `|||||||`, `=======` and `>>>>>>>`, and merge again."
                    .to_owned()
            }
        }
    }
}

impl fmt::Display for Why {
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
    /// Where.
    pub path: TreePath,
    /// What is there.
    pub ours: Option<Entry>,
    /// What theirs wanted there.
    pub theirs: Option<Entry>,
}
