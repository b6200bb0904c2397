//! What moved without being changed, followed when asked: a change of a file
//! that the other side moved goes where the file is.

use std::collections::{HashMap, HashSet};

use elevo_core::TreePath;
use elevo_engine::{Diff, StateTree};
use elevo_objects::Entry;
use elevo_policy::Access;

use super::{ConflictKind, Landed, Limits, Merge, Sides, Three};
use crate::error::{Error, Result};

/// Files and links that moved.
#[derive(Debug, Default)]
pub(super) struct Renames {
    /// From where to where, in ours.
    ours: HashMap<TreePath, TreePath>,
    /// From where to where, in theirs.
    theirs: HashMap<TreePath, TreePath>,
    /// The same, by where it is now.
    theirs_by_target: HashMap<TreePath, TreePath>,
    /// Where ours' content is, for paths that are merged with another one.
    pub(super) read_from: HashMap<TreePath, TreePath>,
    /// Old places in theirs that were dealt with at the new one.
    done: HashSet<TreePath>,
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
    /// Deals with a change of something that moved; false if it did not.
    pub(super) async fn follow_rename(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        if self.renames.done.contains(path) {
            return Ok(true);
        }
        match (&three.base, &three.theirs) {
            (Some(_), Some(_)) => self.changed_what_moved(path, three).await,
            (Some(_), None) => match self.renames.theirs.contains_key(path) {
                true => self.old_place(path, three).await,
                false => self.removed_what_moved(path, three).await,
            },
            (None, Some(_)) => self.new_place(path, three).await,
            (None, None) => Ok(false),
        }
    }

    /// Theirs changed what ours moved: the change goes where it is.
    async fn changed_what_moved(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        let Some(to) = self.our_new_place(path, three) else {
            return Ok(false);
        };
        let ours = self.ours.entry(&to).await?;
        let there = Three {
            ours,
            ..three.clone()
        };
        if self.check(&to, &there).is_err() {
            self.hold(to, there, ConflictKind::Renamed);
            return Ok(true);
        }
        let before = self.out.agreed.entry(&to).await?;
        self.settle(to.clone(), there).await?;
        // Theirs knows nothing of the new place.
        super::put_or_remove(&self.out.agreed, &to, before).await?;
        self.agree(path, three.theirs.as_ref()).await?;
        if let Some(landed) = self
            .out
            .landed
            .last_mut()
            .filter(|landed| landed.path == to)
        {
            landed.from = Some(path.clone());
        }
        Ok(true)
    }

    /// Theirs removed what ours moved.
    async fn removed_what_moved(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        let Some(to) = self.our_new_place(path, three) else {
            return Ok(false);
        };
        let ours = self.ours.entry(&to).await?;
        let there = Three {
            ours,
            ..three.clone()
        };
        self.hold(to, there, ConflictKind::Renamed);
        Ok(true)
    }

    fn our_new_place(&self, path: &TreePath, three: &Three) -> Option<TreePath> {
        let to = self.renames.ours.get(path)?;
        // Where it is now must not be told to who cannot see it.
        let is_hidden = self.rules.view.access(to) == Access::None;
        (three.ours.is_none() && !is_hidden).then(|| to.clone())
    }

    /// Theirs moved this away: it is dealt with where it is now.
    async fn old_place(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        // Nobody else touched it: it goes, as any other.
        Ok(three.ours != three.base && {
            self.agree(path, None).await?;
            true
        })
    }

    /// Theirs moved something here.
    async fn new_place(&mut self, path: &TreePath, three: &Three) -> Result<bool> {
        let Some(from) = self.renames.theirs_by_target.get(path).cloned() else {
            return Ok(false);
        };
        let base = match self.out.agreed.entry(&from).await? {
            Some(base) => Some(base),
            // Its removal has been dealt with.
            None => three.theirs.clone(),
        };
        let ours = self.ours.entry(&from).await?;
        if ours == base || three.ours.is_some() {
            return Ok(false);
        }
        let there = Three {
            base,
            theirs: three.theirs.clone(),
            ours,
        };
        if there.ours.is_none() {
            // Ours moved it elsewhere, or removed it.
            self.hold(path.clone(), there, ConflictKind::Renamed);
            return Ok(true);
        }
        self.carry(path, from, there).await
    }

    /// Ours changed what theirs moved: ours goes along.
    async fn carry(&mut self, path: &TreePath, from: TreePath, there: Three) -> Result<bool> {
        let removal = Three {
            theirs: None,
            ..there.clone()
        };
        if self.check(&from, &removal).is_err() {
            return Ok(false);
        }
        self.renames.done.insert(from.clone());
        let before = there.ours.clone();
        self.set(&from, None).await?;
        self.set(path, before.clone()).await?;
        let bytes_from = self.renames.read_from.insert(path.clone(), from.clone());
        debug_assert!(bytes_from.is_none());
        let theirs = there.theirs.clone();
        self.agree(&from, None).await?;
        self.agree(path, theirs.as_ref()).await?;
        self.out.landed.push(Landed {
            path: path.clone(),
            from: Some(from),
            before: before.clone(),
            after: before,
            entries: 1,
            algorithm: "renamed",
        });
        if there.base == there.theirs {
            return Ok(true);
        }
        self.settle(path.clone(), there).await?;
        Ok(true)
    }
}
