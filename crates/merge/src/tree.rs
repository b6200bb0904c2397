//! Three-way merge of trees: what one side changed since the base, brought to
//! the other.
//!
//! Costs what *theirs* changed, whatever the size of the trees and however much
//! *ours* changed: equal directories are never entered, and the other side is
//! only asked for the paths at hand.

mod directories;
mod files;
mod local;
mod outcome;
mod renames;
mod rules;

use std::collections::HashSet;

use elevo_core::TreePath;
use elevo_engine::{Change, Diff, Repository, StateTree};
use elevo_objects::{Entry, Snapshot};

use crate::drivers::Drivers;
use crate::error::{Error, Result};
use local::Locals;
use renames::Renames;

pub use outcome::{Conflict, ConflictKind, Landed, Overruled, Refused, Suggestion, TreeMerge};
pub use rules::{LaterFirst, Limits, Precedence, Rules};

/// The trees of a merge, all of one repository.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// What both began with. It must be stored.
    pub base: &'a Snapshot,
    /// What is merged into; may have changes that are not stored yet.
    pub ours: &'a StateTree,
    /// What is merged into it. It must be stored.
    pub theirs: &'a Snapshot,
}

/// Merges what `theirs` changed since `base` into `ours`. Stores nothing.
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

/// Whether to go on with what is inside a directory.
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

/// A merge under way.
struct Merge<'a> {
    repository: &'a Repository,
    ours: &'a StateTree,
    rules: &'a Rules<'a>,
    drivers: &'a Drivers,
    limits: &'a Limits,
    locals: Locals<'a>,
    renames: Renames,
    /// Directories that theirs removed: each goes if nothing is left in it.
    emptied: Vec<TreePath>,
    /// Directories that theirs may not make: they are made if something in them
    /// may be.
    unmade: Vec<Refused>,
    /// Names that were taken for files that had to make room.
    taken: HashSet<TreePath>,
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
        Self {
            repository,
            ours: sides.ours,
            rules,
            drivers,
            limits,
            locals: Locals::new(rules, StateTree::at(repository, sides.theirs)),
            renames: Renames::default(),
            emptied: Vec::new(),
            unmade: Vec::new(),
            taken: HashSet::new(),
            changes: 0,
            out: TreeMerge::new(sides.ours.clone(), StateTree::at(repository, sides.base)),
        }
    }

    fn count(&mut self) -> Result<()> {
        self.changes += 1;
        match self.changes > self.limits.changes {
            true => Err(Error::TooManyChanges {
                limit: self.limits.changes,
            }),
            false => Ok(()),
        }
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
            if self.out.tree.entry(&refused.path).await?.is_none() {
                self.out.refused.push(refused);
            }
        }
        Ok(self.out)
    }

    /// Takes what theirs has at `path`.
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
        put_or_remove(&self.out.tree, path, entry).await
    }

    /// Notes that both sides have what theirs has at `path`, or that it has been
    /// dealt with: the next merge of theirs begins with it.
    async fn agree(&mut self, path: &TreePath, theirs: Option<&Entry>) -> Result<()> {
        put_or_remove(&self.out.agreed, path, theirs.cloned()).await
    }

    async fn same(&mut self, path: &TreePath, three: &Three) -> Result<()> {
        self.out.same += 1;
        self.agree(path, three.theirs.as_ref()).await
    }

    /// The nearest thing above `path` that is no directory in ours.
    async fn in_the_way(&self, path: &TreePath) -> Result<Option<TreePath>> {
        let mut above = path.clone();
        while let Some((parent, _)) = above.split_last() {
            if parent.is_root() {
                break;
            }
            match self.out.tree.entry(&parent).await? {
                Some(Entry::Directory { .. }) => break,
                Some(_) => return Ok(Some(parent)),
                None => above = parent,
            }
        }
        Ok(None)
    }
}

async fn put_or_remove(tree: &StateTree, path: &TreePath, entry: Option<Entry>) -> Result<()> {
    match entry {
        Some(entry) => tree.put(path, entry).await?,
        None => match tree.remove(path).await {
            Ok(()) | Err(elevo_engine::Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        },
    }
    Ok(())
}

const fn is_directory(entry: &Option<Entry>) -> bool {
    matches!(entry, Some(Entry::Directory { .. }))
}
