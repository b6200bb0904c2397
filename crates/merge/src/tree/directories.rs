//! Directories that were made, removed, replaced, or got other permissions.

use elevo_core::TreePath;
use elevo_engine::{ChangeKind, Diff};
use elevo_objects::{Entry, Mode, Tree};
use elevo_policy::Strategy;

use super::files::merged_mode;
use super::{ConflictKind, Inside, Landed, Merge, Refused, Three, is_directory};
use crate::error::Result;

impl Merge<'_> {
    /// Theirs has a directory where the base had nothing or something else.
    pub(super) async fn directory_made(&mut self, path: TreePath, three: Three) -> Result<Inside> {
        let Some(Entry::Directory { mode, tree }) = three.theirs else {
            return Ok(Inside::Enter);
        };
        let replaces = three.base.is_some() && three.ours == three.base;
        if let Some(Entry::Directory { .. }) = three.ours {
            self.out.agreed_directory(&path, mode).await?;
            return Ok(Inside::Enter);
        }
        if (three.ours.is_some() && !replaces) || self.in_the_way(&path).await?.is_some() {
            self.hold(path, three, ConflictKind::FileAgainstDirectory);
            return Ok(Inside::Skip);
        }
        if replaces {
            if let Err(refusal) = self.check(&path, &three) {
                self.out.refused.push(Refused { path, refusal });
                return Ok(Inside::Skip);
            }
            self.set(&path, None).await?;
        }
        if tree.count > self.limits.whole && self.is_harmless(&path, tree, Doing::Make).await? {
            self.take_whole(path, three, tree.count).await?;
            return Ok(Inside::Skip);
        }
        match self.rules.check(&path, None, three.theirs.as_ref()) {
            Ok(()) => {
                self.out.tree.make_directory(&path, mode).await?;
                let made = Entry::Directory {
                    mode,
                    tree: Tree::EMPTY,
                };
                self.out.agreed_directory(&path, mode).await?;
                self.landed(path, three.ours, Some(made), TAKE);
            }
            Err(refusal) => self.unmade.push(Refused { path, refusal }),
        }
        Ok(Inside::Enter)
    }

    /// Theirs has nothing where the base had a directory.
    pub(super) async fn directory_removed(
        &mut self,
        path: TreePath,
        three: Three,
    ) -> Result<Inside> {
        let (Some(Entry::Directory { tree, .. }), true) = (&three.base, is_directory(&three.ours))
        else {
            self.same(&path, &three).await?;
            return Ok(Inside::Skip);
        };
        if tree.count > self.limits.whole
            && tree_of(&three.ours) == Some(*tree)
            && self.is_harmless(&path, *tree, Doing::Remove).await?
        {
            let count = tree.count;
            self.take_whole(path, three, count).await?;
            return Ok(Inside::Skip);
        }
        self.emptied.push(path);
        Ok(Inside::Enter)
    }

    /// Theirs has a file or a link where the base had a directory.
    pub(super) async fn directory_replaced(
        &mut self,
        path: TreePath,
        three: Three,
    ) -> Result<Inside> {
        let (Some(base), Some(ours)) = (tree_of(&three.base), tree_of(&three.ours)) else {
            // Ours has no directory there any more: theirs is simply new.
            self.agree(&path, None).await?;
            let three = Three {
                base: None,
                ..three
            };
            self.leaf(path, three).await?;
            return Ok(Inside::Skip);
        };
        if !self.only_removed(base, ours).await? {
            self.hold(path, three, ConflictKind::FileAgainstDirectory);
            return Ok(Inside::Skip);
        }
        if let Err(refusal) = self.check(&path, &three) {
            self.out.refused.push(Refused { path, refusal });
            return Ok(Inside::Skip);
        }
        if !self.is_harmless(&path, ours, Doing::Remove).await? {
            self.hold(path, three, ConflictKind::FileAgainstDirectory);
            return Ok(Inside::Skip);
        }
        self.take_whole(path, three, ours.count + 1).await?;
        Ok(Inside::Skip)
    }

    /// Both have a directory, with other permissions in theirs.
    pub(super) async fn directory_mode(&mut self, path: TreePath, three: &Three) -> Result<Inside> {
        let modes = (mode_of(&three.base), mode_of(&three.ours));
        let (Some(theirs), (Some(base), Some(ours))) = (mode_of(&three.theirs), modes) else {
            return Ok(Inside::Enter);
        };
        if let Err(refusal) = self.rules.view.check(&path, elevo_policy::Doing::Change) {
            self.out.refused.push(Refused { path, refusal });
            return Ok(Inside::Enter);
        }
        self.out.agreed.set_mode(&path, theirs).await?;
        let merged = merged_mode(Some(base), ours, theirs);
        if merged == ours {
            self.out.same += 1;
        } else {
            self.out.tree.set_mode(&path, merged).await?;
            let with = |mode| {
                Some(Entry::Directory {
                    mode,
                    tree: Tree::EMPTY,
                })
            };
            self.landed(path, with(ours), with(merged), "mode");
        }
        Ok(Inside::Enter)
    }

    /// Removes the directories that theirs removed, where nothing is left.
    pub(super) async fn remove_emptied(&mut self) -> Result<()> {
        while let Some(path) = self.emptied.pop() {
            let there = self.out.tree.entry(&path).await?;
            if tree_of(&there) != Some(Tree::EMPTY) {
                continue;
            }
            match self.rules.check(&path, there.as_ref(), None) {
                Ok(()) => {
                    let before = self.ours.entry(&path).await?;
                    self.set(&path, None).await?;
                    self.agree(&path, None).await?;
                    self.landed(path, before, None, TAKE);
                }
                Err(refusal) => self.out.refused.push(Refused { path, refusal }),
            }
        }
        Ok(())
    }

    async fn take_whole(&mut self, path: TreePath, three: Three, entries: u64) -> Result<()> {
        self.set(&path, three.theirs.clone()).await?;
        self.agree(&path, three.theirs.as_ref()).await?;
        self.out.landed.push(Landed {
            path,
            from: None,
            before: three.ours,
            after: three.theirs,
            entries,
            algorithm: TAKE,
        });
        Ok(())
    }

    /// Whether everything below `path` may be made or removed, is merged at
    /// all, and needs nobody's decision.
    async fn is_harmless(&mut self, path: &TreePath, tree: Tree, doing: Doing) -> Result<bool> {
        let mut inside = match doing {
            Doing::Make => Diff::new(self.repository, Tree::EMPTY, tree),
            Doing::Remove => Diff::new(self.repository, tree, Tree::EMPTY),
        };
        while let Some(change) = inside.next().await? {
            let below = below(path, &change.path)?;
            let (base, theirs) = (change.kind.before(), change.kind.after());
            let is_directory = matches!(base.or(theirs), Some(Entry::Directory { .. }));
            let is_ignored = doing == Doing::Make
                && self.rules.follows_gitignore()
                && self.locals.ignored(&below, is_directory).await?;
            if is_ignored
                || self.rules.is_local(&below, is_directory)
                || self.rules.check(&below, base, theirs).is_err()
                || self.rules.strategy(&below) == Strategy::Review
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn only_removed(&self, before: Tree, after: Tree) -> Result<bool> {
        let mut inside = Diff::new(self.repository, before, after);
        while let Some(change) = inside.next().await? {
            if !matches!(change.kind, ChangeKind::Removed(_)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub(super) const TAKE: &str = "take";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Make,
    Remove,
}

impl super::TreeMerge {
    async fn agreed_directory(&self, path: &TreePath, mode: Mode) -> Result<()> {
        match self.agreed.entry(path).await? {
            Some(Entry::Directory { .. }) => {}
            Some(_) => {
                self.agreed.remove(path).await?;
                self.agreed.make_directory(path, mode).await?;
            }
            None => self.agreed.make_directory(path, mode).await?,
        }
        Ok(())
    }
}

fn below(directory: &TreePath, inside: &TreePath) -> Result<TreePath> {
    let mut path = directory.as_bytes().to_vec();
    path.push(b'/');
    path.extend_from_slice(inside.as_bytes());
    Ok(TreePath::new(path).map_err(elevo_engine::Error::from)?)
}

const fn tree_of(entry: &Option<Entry>) -> Option<Tree> {
    match entry {
        Some(Entry::Directory { tree, .. }) => Some(*tree),
        _ => None,
    }
}

const fn mode_of(entry: &Option<Entry>) -> Option<Mode> {
    match entry {
        Some(Entry::Directory { mode, .. }) => Some(*mode),
        _ => None,
    }
}
