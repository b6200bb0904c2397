//! Three-way merge of trees: applies the changes of one side since the base to
//! the other side.
//!
//! Unless renames are followed, the cost depends on the number of changes in
//! *theirs*, not on the size of the trees or the changes in *ours*: equal
//! directories are never entered, and *ours* is read only at the paths that
//! *theirs* changed.

mod content;
mod directories;
mod files;
mod leaving;
mod local;
mod outcome;
mod renames;
mod rules;

use std::collections::HashSet;

use elevo_core::TreePath;
use elevo_engine::{Change, Diff, EntryKind, Repository, StateTree};
use elevo_objects::{Entry, Mode, Snapshot};
use elevo_policy::{Access, Refusal};

use crate::drivers::Drivers;
use crate::error::{Error, Result};
use local::Locals;
use renames::Renames;

pub use leaving::{LeftConflict, WORKSPACE_LABELS, has_workspace_markers};
pub use outcome::{
    Conflict, ConflictKind, Landed, Overruled, RefusalReason, Refused, Suggestion, TreeMerge,
};
pub use rules::{LaterFirst, Limits, Precedence, Rules};

/// The trees of a merge, all in one repository.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// The common ancestor. It must be stored.
    pub base: &'a Snapshot,
    /// The target tree of the merge. It may have changes that are not stored
    /// yet.
    pub ours: &'a StateTree,
    /// The tree whose changes are merged into ours. It must be stored.
    pub theirs: &'a Snapshot,
}

/// Merges the changes of `theirs` since `base` into `ours`. Stores nothing.
pub async fn merge_trees(
    sides: &Sides<'_>,
    rules: &Rules<'_>,
    drivers: &Drivers,
    limits: &Limits,
) -> Result<TreeMerge> {
    let repository = sides.ours.repository();
    let mut merge = Merge::new(sides, rules, drivers, limits);
    if limits.renames {
        merge.renames = Renames::find(sides, limits).await?;
    }
    let mut diff = Diff::new(repository, sides.base.tree, sides.theirs.tree);
    while let Some(change) = diff.next().await? {
        merge.count()?;
        if merge.change(change).await? == Inside::Skip {
            diff.skip_inside();
        }
    }
    merge.finish().await
}

/// Whether to continue with the content of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Enter,
    Skip,
}

/// The versions of one entry.
#[derive(Clone, Debug)]
struct Three {
    base: Option<Entry>,
    ours: Option<Entry>,
    theirs: Option<Entry>,
}

/// A merge in progress.
struct Merge<'a> {
    repository: &'a Repository,
    /// A repository that can also read the parts of ours that are not stored;
    /// created on first use.
    unstored: Option<Repository>,
    base: StateTree,
    ours: &'a StateTree,
    theirs: StateTree,
    rules: &'a Rules<'a>,
    drivers: &'a Drivers,
    limits: &'a Limits,
    locals: Locals<'a>,
    renames: Renames,
    /// Directories that theirs removed. At the end of the merge, each is
    /// removed if it is empty.
    emptied: Vec<TreePath>,
    /// Directories that the policy does not let theirs create. Such a directory
    /// is created only if theirs may create an entry in it.
    unmade: Vec<Refused>,
    /// Entries of ours where theirs has a directory.
    blocking: HashSet<TreePath>,
    /// The last path that prevented a directory from being taken as a whole.
    /// Directories above this path need not be examined again.
    harm: Option<TreePath>,
    changes: u64,
    out: TreeMerge,
}

impl<'a> Merge<'a> {
    fn new(
        sides: &Sides<'a>,
        rules: &'a Rules<'a>,
        drivers: &'a Drivers,
        limits: &'a Limits,
    ) -> Self {
        let repository = sides.ours.repository();
        let base = StateTree::at(repository, sides.base);
        let theirs = StateTree::at(repository, sides.theirs);
        Self {
            repository,
            unstored: None,
            ours: sides.ours,
            rules,
            drivers,
            limits,
            locals: Locals::new(rules, theirs.clone()),
            renames: Renames::default(),
            emptied: Vec::new(),
            unmade: Vec::new(),
            blocking: HashSet::new(),
            harm: None,
            changes: 0,
            out: TreeMerge::new(sides.ours.clone(), base.clone()),
            base,
            theirs,
        }
    }

    /// Returns a repository that can read all of ours, including unstored
    /// parts.
    async fn unstored(&mut self) -> Result<Repository> {
        match &self.unstored {
            Some(repository) => Ok(repository.clone()),
            None => {
                let diff = self.base.diff(self.ours).await?;
                Ok(self.unstored.insert(diff.repository().clone()).clone())
            }
        }
    }

    fn count(&mut self) -> Result<()> {
        self.changes += 1;
        if self.changes > self.limits.changes {
            return Err(Error::TooManyChanges {
                limit: self.limits.changes,
            });
        }
        Ok(())
    }

    async fn change(&mut self, change: Change) -> Result<Inside> {
        let Change { path, kind } = change;
        let (base, theirs) = (kind.before().cloned(), kind.after().cloned());
        let ours = self.ours.entry(&path).await?;
        let three = Three { base, ours, theirs };
        if self.locals.is_local(&path, &three).await? {
            self.out.local += 1;
            return Ok(Inside::Skip);
        }
        match (is_directory(&three.base), is_directory(&three.theirs)) {
            (false, false) => {
                self.leaf(path, three).await?;
                Ok(Inside::Enter)
            }
            (false, true) => self.directory_made(path, three).await,
            (true, false) if three.theirs.is_none() => self.directory_removed(path, three).await,
            (true, false) => self.directory_replaced(path, three).await,
            (true, true) => self.directory_mode(path, &three).await,
        }
    }

    async fn finish(mut self) -> Result<TreeMerge> {
        self.remove_emptied().await?;
        for refused in std::mem::take(&mut self.unmade) {
            if self.rules.hides_all_of(&refused.path)
                || self.out.tree.stat(&refused.path).await?.is_none()
            {
                self.out.refused.push(refused);
            }
        }
        let out = &mut self.out;
        out.landed.sort_by(|one, other| one.path.cmp(&other.path));
        out.conflicts
            .sort_by(|one, other| one.path.cmp(&other.path));
        out.refused.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(self.out)
    }

    /// Leaves a change out because the policy denies it. A path that is hidden
    /// from the agent is always missing in theirs, so its absence is not a
    /// change.
    fn refuse(&mut self, path: TreePath, theirs: Option<&Entry>, refusal: Refusal) {
        if refusal.access == Access::None && theirs.is_none() {
            self.out.hidden += 1;
        } else {
            self.out.refused.push(Refused::by_policy(path, refusal));
        }
    }

    /// Takes theirs at `path`.
    async fn land(&mut self, path: TreePath, three: &Three, algorithm: &'static str) -> Result<()> {
        let after = three.theirs.clone();
        self.set(&path, after.clone()).await?;
        self.agree(&path, after.as_ref()).await?;
        self.landed(path, three.ours.clone(), after, algorithm);
        Ok(())
    }

    fn landed(
        &mut self,
        path: TreePath,
        before: Option<Entry>,
        after: Option<Entry>,
        algorithm: &'static str,
    ) {
        self.out.landed.push(Landed {
            path,
            from: None,
            entries: 1,
            before,
            after,
            algorithm,
        });
    }

    async fn set(&mut self, path: &TreePath, entry: Option<Entry>) -> Result<()> {
        put_or_remove(&self.out.tree, &self.theirs, path, entry).await
    }

    /// Records that theirs at `path` is merged or otherwise dealt with. The
    /// next merge of theirs uses this state as its base.
    async fn agree(&mut self, path: &TreePath, theirs: Option<&Entry>) -> Result<()> {
        agree_at(&self.out.agreed, &self.theirs, path, theirs).await
    }

    async fn same(&mut self, path: &TreePath, three: &Three) -> Result<()> {
        self.out.same += 1;
        self.agree(path, three.theirs.as_ref()).await
    }

    /// Whether ours has a file or link where theirs has a directory above
    /// `path`. If so, records a conflict: for the whole directory, or only for
    /// `path` if the entry of ours is hidden from their agent.
    async fn is_blocked(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        let Some(blocking) = above_in_the_way(&self.out.tree, path).await? else {
            return Ok(false);
        };
        let is_hidden = self.rules.view.access(&blocking) == Access::None;
        let (path, three) = if is_hidden {
            (path.clone(), three.clone())
        } else {
            let base = self.base.entry(&blocking).await?;
            let ours = self.ours.entry(&blocking).await?;
            let theirs = self.theirs.entry(&blocking).await?;
            (blocking, Three { base, ours, theirs })
        };
        if self.blocking.insert(path.clone()) {
            self.hold(path, three, ConflictKind::FileAgainstDirectory);
        }
        Ok(true)
    }
}

/// Puts theirs at `path` into the agreed tree.
async fn agree_at(
    agreed: &StateTree,
    like: &StateTree,
    path: &TreePath,
    theirs: Option<&Entry>,
) -> Result<()> {
    if theirs.is_some()
        && let Some(in_the_way) = above_in_the_way(agreed, path).await?
    {
        agreed.remove(&in_the_way).await?;
    }
    put_or_remove(agreed, like, path, theirs.cloned()).await
}

/// The nearest ancestor of `path` that is not a directory.
async fn above_in_the_way(tree: &StateTree, path: &TreePath) -> Result<Option<TreePath>> {
    let mut above = path.clone();
    while let Some((parent, _)) = above.split_last().filter(|(parent, _)| !parent.is_root()) {
        match tree.stat(&parent).await? {
            Some(stat) if stat.kind == EntryKind::Directory => break,
            Some(_) => return Ok(Some(parent)),
            None => above = parent,
        }
    }
    Ok(None)
}

/// Creates the missing directories above `path`, with the permissions that they
/// have in `like`.
async fn make_above(tree: &StateTree, like: &StateTree, path: &TreePath) -> Result<()> {
    let mut missing = Vec::new();
    let mut above = path.clone();
    while let Some((parent, _)) = above.split_last().filter(|(parent, _)| !parent.is_root()) {
        if tree.stat(&parent).await?.is_some() {
            break;
        }
        missing.push(parent.clone());
        above = parent;
    }
    for directory in missing.into_iter().rev() {
        let mode = like.stat(&directory).await?.map(|stat| stat.mode);
        tree.make_directory(&directory, mode.unwrap_or(Mode::EXECUTABLE))
            .await?;
    }
    Ok(())
}

async fn put_or_remove(
    tree: &StateTree,
    like: &StateTree,
    path: &TreePath,
    entry: Option<Entry>,
) -> Result<()> {
    match entry {
        Some(entry) => {
            make_above(tree, like, path).await?;
            tree.put(path, entry).await?;
        }
        None => match tree.remove(path).await {
            Ok(()) | Err(elevo_engine::Error::NotFound(_)) => {}
            // The path is already gone if an ancestor is not a directory.
            Err(elevo_engine::Error::NotADirectory(_)) => {}
            Err(error) => return Err(error.into()),
        },
    }
    Ok(())
}

const fn is_directory(entry: &Option<Entry>) -> bool {
    matches!(entry, Some(Entry::Directory { .. }))
}
