//! Renames of unchanged files, followed on request: a change of a file that the
//! other side moved is applied at its new path.

use std::collections::{HashMap, HashSet};

use elevo_core::TreePath;
use elevo_engine::{Diff, EntryKind, StateTree};
use elevo_objects::Entry;
use elevo_policy::{Access, Strategy};

use super::files::{file, merged_mode};
use super::{ConflictKind, Landed, Limits, Merge, Sides, Three, above_in_the_way, make_above};
use crate::error::{Error, Result};

const RENAMED: &str = "renamed";

/// Files and links that moved.
#[derive(Debug, Default)]
pub(super) struct Renames {
    /// Old path to new path, in ours.
    ours: HashMap<TreePath, TreePath>,
    /// Old path to new path, in theirs.
    theirs: HashMap<TreePath, TreePath>,
    /// New path to old path, in theirs.
    theirs_by_target: HashMap<TreePath, TreePath>,
    /// Paths that were dealt with together with the other path of their rename.
    done: HashSet<TreePath>,
    /// Old paths of held entries, which the next merge must find again.
    held: HashSet<TreePath>,
}

impl Renames {
    pub(super) async fn find(sides: &Sides<'_>, limits: &Limits) -> Result<Self> {
        let repository = sides.ours.repository();
        let base = StateTree::at(repository, sides.base);
        let theirs = Diff::new(repository, sides.base.tree, sides.theirs.tree);
        let theirs = moved(theirs, limits).await?;
        let ours = moved(base.diff(sides.ours).await?, limits).await?;
        Ok(Self {
            theirs_by_target: theirs
                .iter()
                .map(|(from, to)| (to.clone(), from.clone()))
                .collect(),
            theirs,
            ours,
            ..Self::default()
        })
    }

    /// Whether anything moved into a directory or out of it.
    pub(super) fn touch(&self, directory: &TreePath) -> bool {
        let theirs = self.theirs.keys().chain(self.theirs_by_target.keys());
        let mut places = theirs.chain(self.ours.keys());
        places.any(|place| place.starts_with(directory))
    }

    /// Whether an entry that was in the directory is held.
    pub(super) fn hold_inside(&self, directory: &TreePath) -> bool {
        let mut held = self.held.iter();
        held.any(|place| place.starts_with(directory))
    }

    /// From now on, treats a rename of theirs as a removal and an addition.
    fn forget(&mut self, from: &TreePath, to: &TreePath) {
        self.theirs.remove(from);
        self.theirs_by_target.remove(to);
    }
}

async fn moved(mut diff: Diff, limits: &Limits) -> Result<HashMap<TreePath, TreePath>> {
    let mut changes = Vec::new();
    while let Some(change) = diff.next().await? {
        if changes.len() as u64 >= limits.changes {
            return Err(Error::TooManyChanges {
                limit: limits.changes,
            });
        }
        changes.push(change);
    }
    let found = elevo_engine::renames(changes).renames.into_iter();
    Ok(found
        .filter(|rename| !matches!(rename.before, Entry::Directory { .. }))
        .map(|rename| (rename.from, rename.to))
        .collect())
}

impl Merge<'_> {
    /// Merges a change of a moved entry. Returns false if the entry did not
    /// move, or the rename cannot be followed.
    pub(super) async fn follow_rename(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        if self.renames.done.contains(path) {
            return Ok(true);
        }
        match (&three.base, &three.theirs) {
            (Some(_), Some(_)) => self.changed_what_moved(path, three).await,
            (Some(_), None) => {
                if let Some(to) = self.renames.theirs.get(path).cloned()
                    && self.moved(path.clone(), to).await?
                {
                    return Ok(true);
                }
                self.removed_what_moved(path, three).await
            }
            (None, Some(_)) => match self.renames.theirs_by_target.get(path).cloned() {
                Some(from) => self.moved(from, path.clone()).await,
                None => Ok(false),
            },
            (None, None) => Ok(false),
        }
    }

    /// Theirs changed an entry that ours moved: applies the change at the new
    /// path. A change that cannot land there is held at the path in theirs.
    async fn changed_what_moved(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        let Some((to, there)) = self.where_ours_is(path, three).await? else {
            return Ok(false);
        };
        // `settle` records theirs at the new path as agreed. Theirs does not
        // have this path, so the agreed tree is restored afterwards.
        let agreed = self.out.agreed.clone();
        let held = self.out.conflicts.len();
        self.settle(to.clone(), there).await?;
        self.out.agreed = agreed;
        if self.out.conflicts.len() > held {
            self.out.conflicts.truncate(held);
            self.hold(path.clone(), three.clone(), ConflictKind::Renamed);
            return Ok(true);
        }
        self.agree(path, three.theirs.as_ref()).await?;
        let last = self.out.landed.last_mut();
        if let Some(landed) = last.filter(|landed| landed.path == to) {
            landed.from = Some(path.clone());
        }
        Ok(true)
    }

    /// Records a conflict if theirs removed an entry that ours moved. Returns
    /// false if ours did not move the entry, or the rename cannot be followed.
    async fn removed_what_moved(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        let Some((to, there)) = self.where_ours_is(path, three).await? else {
            return Ok(false);
        };
        self.hold_moved(path.clone(), to, there);
        Ok(true)
    }

    fn hold_moved(&mut self, from: TreePath, to: TreePath, three: Three) {
        self.hold(to, three, ConflictKind::Renamed);
        if let Some(conflict) = self.out.conflicts.last_mut() {
            conflict.from = Some(from.clone());
        }
        self.renames.held.insert(from);
    }

    /// Returns the path to which ours moved the entry at `path`, and the
    /// versions of the entry. Returns `None` if ours did not move the entry, or
    /// if the rename cannot be followed: because the sides differ in the kind
    /// of the entry, theirs may not see or change the new path, or theirs
    /// itself changed the new path.
    async fn where_ours_is(
        &self,
        path: &TreePath,
        three: &Three,
    ) -> Result<Option<(TreePath, Three)>> {
        let to = self.renames.ours.get(path).cloned();
        let Some(to) = to.filter(|_| three.ours.is_none()) else {
            return Ok(None);
        };
        let there = Three {
            ours: self.ours.entry(&to).await?,
            ..three.clone()
        };
        let is_free = is_kind_kept(&there)
            // The new path must not be revealed to an agent that cannot see it.
            && self.rules.view.access(&to) != Access::None
            && self.check(&to, &there).is_ok()
            && self.theirs.entry(&to).await? == self.base.entry(&to).await?
            && above_in_the_way(&self.theirs, &to).await?.is_none();
        Ok(is_free.then_some((to, there)))
    }

    /// Merges a rename of theirs. Both paths are dealt with when the merge
    /// reaches the first of them. Returns false if the rename cannot be
    /// followed.
    async fn moved(&mut self, from: TreePath, to: TreePath) -> Result<bool> {
        let is_ours_too = self.renames.ours.get(&from) == Some(&to);
        let ours = if is_ours_too { &to } else { &from };
        let three = Three {
            base: self.base.entry(&from).await?,
            ours: self.ours.entry(ours).await?,
            theirs: self.theirs.entry(&to).await?,
        };
        if is_ours_too && self.check(&to, &three).is_ok() {
            self.renames.done.extend([from.clone(), to.clone()]);
            self.agree(&from, None).await?;
            self.settle(to, three).await?;
            return Ok(true);
        }
        if !self.can_follow(&from, &to, &three).await? {
            self.renames.forget(&from, &to);
            return Ok(false);
        }
        self.renames.done.extend([from.clone(), to.clone()]);
        match three.ours {
            // Ours moved the entry to another path, or removed it.
            None => self.hold_moved(from, to, three),
            Some(_) => self.carry(from, to, three).await?,
        }
        Ok(true)
    }

    /// Whether ours changed, moved or removed an entry that theirs moved, and
    /// the rename can be followed.
    async fn can_follow(&mut self, from: &TreePath, to: &TreePath, three: &Three) -> Result<bool> {
        let at = |base, theirs| Three {
            base,
            ours: None,
            theirs,
        };
        let removed = at(three.base.clone(), None);
        let added = at(None, three.theirs.clone());
        let is_protected = |path| self.rules.strategy(path) == Strategy::Review;
        if three.ours == three.base
            || !is_kind_kept(three)
            || self.ours.stat(to).await?.is_some()
            || is_protected(from)
            || is_protected(to)
            || self.check(from, &removed).is_err()
            || self.check(to, &added).is_err()
            || above_in_the_way(&self.out.tree, to).await?.is_some()
            || above_in_the_way(&self.theirs, from).await?.is_some()
        {
            return Ok(false);
        }
        Ok(!self.locals.is_local(from, &removed).await?
            && !self.locals.is_local(to, &added).await?)
    }

    /// Moves an entry that ours changed to the path to which theirs moved it.
    /// The content of ours may not be stored yet, so it is not read.
    async fn carry(&mut self, from: TreePath, to: TreePath, three: Three) -> Result<()> {
        make_above(&self.out.tree, &self.theirs, &to).await?;
        self.out.tree.rename(&from, &to).await?;
        if let (Some((_, ours)), Some((_, theirs))) = (file(&three.ours), file(&three.theirs)) {
            let base = file(&three.base).map(|(_, mode)| mode);
            let mode = merged_mode(base, ours, theirs);
            self.out.tree.set_mode(&to, mode).await?;
        }
        self.agree(&from, None).await?;
        self.agree(&to, three.theirs.as_ref()).await?;
        let after = self.out.tree.entry(&to).await?;
        self.landed(from.clone(), three.ours.clone(), None, RENAMED);
        self.out.landed.push(Landed {
            path: to,
            from: Some(from),
            before: three.ours,
            after,
            entries: 1,
            algorithm: RENAMED,
        });
        Ok(())
    }
}

/// Whether the versions of both sides, if present, are of one kind: a file that
/// became a link is not the file that moved.
fn is_kind_kept(three: &Three) -> bool {
    match (&three.ours, &three.theirs) {
        (Some(ours), Some(theirs)) => EntryKind::of(ours) == EntryKind::of(theirs),
        _ => true,
    }
}
