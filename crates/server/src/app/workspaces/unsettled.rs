//! Conflicts that a refresh left to a workspace, and how far it has settled them.
//!
//! A refresh that an agent asks for makes the project's version the base of each
//! such path and notes what it left in the workspace: a text with conflict
//! markers, or the workspace's own version. Without the note, the next merge
//! would take the workspace's version for a change of the project's version.
//! So a merge looks at each noted path first:
//!
//! | the workspace has | then |
//! |---|---|
//! | a file with markers | the change is refused |
//! | what the refresh left | the change is a conflict, as before the refresh |
//! | anything else | the conflict is settled: the change is merged, and the note is removed |
//!
//! Notes are written before the files, and bases move after them. A server that
//! is killed in between leaves a note without a new base: the merge then finds
//! the conflict that was there before the refresh.

use std::collections::{BTreeMap, BTreeSet};

use elevo_catalog::{MAX_UNSETTLED, Unsettled, Workspace};
use elevo_core::TreePath;
use elevo_engine::{CommitInfo, Repository, StateTree};
use elevo_merge::{Conflict, Left, Limits, Refused, TreeMerge, Why, has_workspace_markers};
use elevo_objects::{Entry, Snapshot, SnapshotId};

use crate::app::access::principal::Principal;
use crate::app::projects::trees::{committed, put};
use crate::app::snapshots::Kept;
use crate::app::workspaces::Workspaces;
use crate::failure::Result;
use crate::platform::clock;

/// Maximum number of conflicts that one refresh leaves to a workspace. It keeps
/// its own version of all others, as in an automatic refresh.
const LEFT: usize = 1000;

/// The files of a workspace at one moment, with its base and notes then.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) snapshot: Kept,
    pub(crate) base: SnapshotId,
    pub(crate) unsettled: Vec<Unsettled>,
}

impl Workspaces {
    /// Takes a snapshot of a workspace while no refresh changes it.
    pub(crate) async fn take(&self, who: &Principal, row: &Workspace) -> Result<Taken> {
        let _held = self.hold_workspace(row).await?;
        let unsettled = self.catalog.unsettled(row.tenant, &row.id).await?;
        let row = self.visible(who, &row.id).await?;
        Ok(Taken {
            snapshot: self.snapshot_held(who, &row).await?,
            base: row.base,
            unsettled,
        })
    }

    /// Copies the notes of a workspace to a fork of it.
    pub(crate) async fn copy_unsettled(&self, from: &Workspace, fork: &Workspace) -> Result<()> {
        let unsettled = self.catalog.unsettled(from.tenant, &from.id).await?;
        if unsettled.is_empty() {
            return Ok(());
        }
        let change = elevo_catalog::WorkspaceChange {
            unsettled: Some(unsettled),
            ..elevo_catalog::WorkspaceChange::default()
        };
        self.catalog
            .change_workspace(fork.tenant, &fork.id, &change, clock::now())
            .await?;
        Ok(())
    }
}

/// The state of a workspace's unsettled conflicts.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Paths that the workspace has settled.
    pub(crate) settled: Vec<TreePath>,
    /// Paths that are as the refresh left them, without markers.
    pub(crate) untouched: BTreeSet<TreePath>,
    /// Files that still have markers.
    pub(crate) marked: Vec<TreePath>,
}

impl Standing {
    pub(crate) async fn of(workspace: &StateTree, unsettled: &[Unsettled]) -> Result<Self> {
        let mut standing = Self::default();
        for one in unsettled {
            let path = one.path.clone();
            if is_marked(workspace, one).await? {
                standing.marked.push(path);
            } else if is_untouched(workspace.entry(&path).await?.as_ref(), one) {
                standing.untouched.insert(path);
            } else {
                standing.settled.push(path);
            }
        }
        Ok(standing)
    }

    /// Returns the workspace's snapshot with the base's version of each file
    /// that still has markers, so that a merge leaves them alone.
    pub(crate) async fn without_marked(
        &self,
        repository: &Repository,
        base: &Snapshot,
        theirs: &Snapshot,
    ) -> Result<Option<Kept>> {
        if self.marked.is_empty() {
            return Ok(None);
        }
        let base = StateTree::at(repository, base);
        let tree = StateTree::at(repository, theirs);
        for path in &self.marked {
            put(&tree, path, base.entry(path).await?).await?;
        }
        let info = CommitInfo {
            parents: Vec::new(),
            author: "elevo".into(),
            message: "what can be merged of a workspace".into(),
            created: theirs.created,
            labels: BTreeMap::new(),
            reference: None,
        };
        committed(&tree, info).await.map(Some)
    }

    /// Reports the files that still have markers.
    pub(crate) fn refuse(&self, merge: &mut TreeMerge) {
        let refused = self.marked.iter().map(|path| Refused {
            path: path.clone(),
            why: Why::Markers(path.clone()),
        });
        merge.refused.extend(refused);
        let refused = &mut merge.refused;
        refused.sort_by(|one, other| one.path.cmp(&other.path));
    }
}

async fn is_marked(workspace: &StateTree, one: &Unsettled) -> Result<bool> {
    let fits = |size| size <= Limits::default().file_bytes;
    match workspace.entry(&one.path).await? {
        Some(Entry::File { content, .. }) if one.marked && fits(content.size()) => {
            Ok(has_workspace_markers(&workspace.read(&one.path).await?))
        }
        _ => Ok(false),
    }
}

/// A change of only the mode settles nothing.
fn is_untouched(entry: Option<&Entry>, one: &Unsettled) -> bool {
    match (entry, &one.left) {
        (Some(Entry::File { content, .. }), Some(Entry::File { content: left, .. })) => {
            content == left
        }
        (entry, left) => entry == left.as_ref(),
    }
}

/// The notes of a workspace during a refresh.
#[derive(Debug)]
pub(crate) struct Notes {
    before: Vec<Unsettled>,
    known: BTreeMap<TreePath, Unsettled>,
    /// Files that have markers after the refresh.
    pub(crate) marked: Vec<TreePath>,
}

impl Notes {
    pub(crate) fn new(before: Vec<Unsettled>) -> Self {
        let known = before.iter().map(|one| (one.path.clone(), one.clone()));
        Self {
            known: known.collect(),
            marked: Vec::new(),
            before,
        }
    }

    /// Leaves the conflicts of a refresh to the workspace.
    pub(crate) async fn leave(&mut self, merge: &mut TreeMerge, theirs: &StateTree) -> Result<()> {
        let conflicts = merge.conflicts.clone().into_iter();
        for conflict in conflicts.filter(Conflict::can_be_left).take(LEFT) {
            match self.known.get(&conflict.path) {
                Some(one) if is_marked(&merge.tree, one).await? => {
                    self.marked.push(conflict.path.clone());
                    // An earlier refresh wrote the markers and was interrupted.
                    if one.seen == conflict.theirs {
                        merge.adopt(&conflict, theirs).await?;
                    }
                }
                None if self.known.len() >= MAX_UNSETTLED => {}
                _ => {
                    let limit = Limits::default().file_bytes;
                    self.note(merge.leave(&conflict, theirs, limit).await?);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, left: Left) {
        if left.marked {
            self.marked.push(left.path.clone());
        }
        let one = Unsettled {
            path: left.path.clone(),
            seen: left.seen,
            left: left.left,
            marked: left.marked,
        };
        self.known.insert(left.path, one);
    }

    /// Returns the notes to write before the files, if there are new ones.
    pub(crate) fn first(&self) -> Option<Vec<Unsettled>> {
        let all: Vec<_> = self.known.values().cloned().collect();
        (all != self.before).then_some(all)
    }

    /// Returns the notes to write after the files, if they have changed: a path
    /// that was untouched before the refresh is untouched after it.
    pub(crate) async fn last(
        mut self,
        workspace: &StateTree,
        merge: &TreeMerge,
    ) -> Result<Option<Vec<Unsettled>>> {
        for one in self.known.values_mut() {
            let was = workspace.entry(&one.path).await?;
            if is_untouched(was.as_ref(), one) {
                one.left = merge.tree.entry(&one.path).await?;
            }
        }
        Ok(self.first())
    }
}
