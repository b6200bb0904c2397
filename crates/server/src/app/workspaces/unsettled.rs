//! Unsettled conflicts: conflicts of a refresh that are to be resolved in the
//! workspace.
//!
//! A refresh that an agent requests makes the version of the project the base of
//! each conflicting path. It records the content that it leaves in the workspace:
//! a text with conflict markers, or the version of the workspace. Without this
//! record, the next merge would take that content for an intended change and
//! overwrite the version of the project. So a merge first checks each recorded
//! path:
//!
//! | content in the workspace | effect on the merge |
//! |---|---|
//! | a file with conflict markers | the change is refused |
//! | the content that the refresh left | the change is a conflict, as before the refresh |
//! | any other content | the conflict is resolved: the change is merged, and the record is deleted |
//!
//! A refresh writes the records first, then the files, and moves the base last. A
//! server that is killed in between leaves a record with the old base: the next
//! merge then finds the conflict as it was before the refresh.

use std::collections::{BTreeMap, BTreeSet};

use elevo_catalog::{MAX_UNSETTLED, Unsettled, Workspace};
use elevo_core::TreePath;
use elevo_engine::{CommitInfo, Repository, StateTree};
use elevo_merge::{
    Conflict, LeftConflict, Limits, RefusalReason, Refused, TreeMerge, has_workspace_markers,
};
use elevo_objects::{Entry, Snapshot, SnapshotId};

use crate::app::access::principal::Principal;
use crate::app::projects::trees::{committed, put};
use crate::app::snapshots::Kept;
use crate::app::workspaces::Workspaces;
use crate::failure::Result;
use crate::platform::clock;

/// Maximum conflicts that one refresh writes into a workspace. At the other
/// conflicting paths the workspace keeps its version, as in an automatic refresh.
const LEFT: usize = 1000;

/// A snapshot of a workspace, with its base and its unsettled conflicts at the
/// same moment.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) snapshot: Kept,
    pub(crate) base: SnapshotId,
    pub(crate) unsettled: Vec<Unsettled>,
}

impl Workspaces {
    /// Creates a snapshot of a workspace under its lock, so that no refresh
    /// changes the base at the same time.
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

    /// Copies the unsettled conflicts of a workspace to its fork.
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

/// The unsettled conflicts of a workspace, divided by the current content of
/// their paths.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Paths whose conflict was resolved in the workspace.
    pub(crate) settled: Vec<TreePath>,
    /// Paths that still have the content that the refresh left, without conflict
    /// markers.
    pub(crate) untouched: BTreeSet<TreePath>,
    /// Files that still have conflict markers.
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

    /// Returns a copy of the snapshot `theirs` in which each file with conflict
    /// markers has the version of the base. So a merge sees no change of these
    /// files. Returns `None` if there are no such files.
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
            message: "workspace without files that have conflict markers".into(),
            created: theirs.created,
            labels: BTreeMap::new(),
            reference: None,
        };
        committed(&tree, info).await.map(Some)
    }

    /// Adds the files with conflict markers to the refused changes of a merge.
    pub(crate) fn refuse(&self, merge: &mut TreeMerge) {
        let refused = self.marked.iter().map(|path| Refused {
            path: path.clone(),
            why: RefusalReason::Markers(path.clone()),
        });
        merge.refused.extend(refused);
        let refused = &mut merge.refused;
        refused.sort_by(|one, other| one.path.cmp(&other.path));
    }
}

/// Returns true if a file still has the conflict markers of a refresh.
async fn is_marked(workspace: &StateTree, one: &Unsettled) -> Result<bool> {
    let fits = |size| size <= Limits::default().file_bytes;
    match workspace.entry(&one.path).await? {
        Some(Entry::File { content, .. }) if one.marked && fits(content.size()) => {
            Ok(has_workspace_markers(&workspace.read(&one.path).await?))
        }
        _ => Ok(false),
    }
}

/// Returns true if an entry is as the refresh left it. A change of the mode alone
/// does not resolve a conflict.
fn is_untouched(entry: Option<&Entry>, one: &Unsettled) -> bool {
    match (entry, &one.left) {
        (Some(Entry::File { content, .. }), Some(Entry::File { content: left, .. })) => {
            content == left
        }
        (entry, left) => entry == left.as_ref(),
    }
}

/// The records of unsettled conflicts of a workspace, before a refresh and with
/// the changes that the refresh makes.
#[derive(Debug)]
pub(crate) struct Notes {
    before: Vec<Unsettled>,
    known: BTreeMap<TreePath, Unsettled>,
    /// Files that have conflict markers after the refresh.
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

    /// Writes the conflicts of a refresh into the merged tree, and records them.
    pub(crate) async fn leave(&mut self, merge: &mut TreeMerge, theirs: &StateTree) -> Result<()> {
        let conflicts = merge.conflicts.clone().into_iter();
        for conflict in conflicts.filter(Conflict::can_be_left).take(LEFT) {
            match self.known.get(&conflict.path) {
                Some(one) if is_marked(&merge.tree, one).await? => {
                    self.marked.push(conflict.path.clone());
                    // An earlier refresh of the same version wrote the markers
                    // and was interrupted before it moved the base.
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

    fn note(&mut self, left: LeftConflict) {
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

    /// Returns the records to write before the files; `None` if they are
    /// unchanged.
    pub(crate) fn first(&self) -> Option<Vec<Unsettled>> {
        let all: Vec<_> = self.known.values().cloned().collect();
        (all != self.before).then_some(all)
    }

    /// Returns the records to write after the files; `None` if they are
    /// unchanged. A path that was untouched before the refresh gets the content
    /// that this refresh leaves, so that it still counts as untouched.
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
