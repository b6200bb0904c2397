//! Directories that theirs created, removed, replaced or gave other
//! permissions.

use elevo_core::TreePath;
use elevo_engine::{ChangeKind, Diff, EntryKind, StateTree};
use elevo_objects::{Entry, Mode, Tree};
use elevo_policy::Strategy;

use super::files::merged_mode;
use super::{ConflictKind, Inside, Landed, Merge, Refused, Three, is_directory, make_above};
use crate::error::Result;

impl Merge<'_> {
    /// Merges a directory of theirs, at a path where the base had nothing or
    /// another kind of entry. Returns whether to enter the directory.
    pub(super) async fn directory_made(&mut self, path: TreePath, three: Three) -> Result<Inside> {
        let Some(Entry::Directory { mode, tree }) = three.theirs else {
            return Ok(Inside::Enter);
        };
        if self.rules.hides_all_of(&path)
            && let Err(refusal) = self.rules.check(&path, None, three.theirs.as_ref())
        {
            // The result must not depend on ours, because it would then reveal
            // whether a hidden path exists.
            self.unmade.push(Refused::by_policy(path, refusal));
            return Ok(Inside::Enter);
        }
        if is_directory(&three.ours) {
            return self.directory_mode(path, &three).await;
        }
        let replaced = three.ours.as_ref().and(three.base.as_ref());
        if let Err(refusal) = self.rules.check(&path, replaced, three.theirs.as_ref()) {
            if three.ours.is_some() {
                self.refuse(path, three.theirs.as_ref(), refusal);
                return Ok(Inside::Skip);
            }
            self.unmade.push(Refused::by_policy(path, refusal));
            return Ok(Inside::Enter);
        }
        if three.ours.is_some() && three.ours != three.base {
            self.hold(path, three, ConflictKind::FileAgainstDirectory);
            return Ok(Inside::Skip);
        }
        if self.is_blocked(&path, &three).await? {
            return Ok(Inside::Skip);
        }
        let is_protected = self.rules.strategy(&path) == Strategy::Review;
        if is_protected && (three.ours.is_some() || tree == Tree::EMPTY) {
            self.hold(path, three, ConflictKind::Protected);
            return Ok(Inside::Skip);
        }
        if three.ours.is_some() {
            self.set(&path, None).await?;
        }
        let inside = Diff::new(self.repository, Tree::EMPTY, tree);
        if self.may_take_whole(&path, tree) && self.is_harmless(&path, inside).await? {
            self.take_whole(path, three, tree.count).await?;
            return Ok(Inside::Skip);
        }
        // Entries in a protected directory are held one by one.
        if !is_protected {
            self.make(path, three, mode).await?;
        }
        Ok(Inside::Enter)
    }

    async fn make(&mut self, path: TreePath, three: Three, mode: Mode) -> Result<()> {
        make_above(&self.out.tree, &self.theirs, &path).await?;
        self.out.tree.make_directory(&path, mode).await?;
        self.agree_directory(&path, mode).await?;
        self.landed(path, three.ours, with_mode(mode), TAKE);
        Ok(())
    }

    /// Merges a directory of the base that theirs removed. Returns whether to
    /// enter the directory.
    pub(super) async fn directory_removed(
        &mut self,
        path: TreePath,
        three: Three,
    ) -> Result<Inside> {
        let (Some(base), Some(ours)) = (tree_of(&three.base), tree_of(&three.ours)) else {
            if self.renames.touch(&path) {
                self.emptied.push(path);
                return Ok(Inside::Enter);
            }
            self.same(&path, &three).await?;
            return Ok(Inside::Skip);
        };
        if base == ours
            && self.may_take_whole(&path, base)
            && self.check(&path, &three).is_ok()
            && self.rules.strategy(&path) != Strategy::Review
            && self
                .is_harmless(&path, Diff::new(self.repository, base, Tree::EMPTY))
                .await?
        {
            self.take_whole(path, three, base.count).await?;
            return Ok(Inside::Skip);
        }
        self.emptied.push(path);
        Ok(Inside::Enter)
    }

    /// Merges a directory of the base that theirs replaced by a file or a link.
    /// Returns whether to enter the directory.
    pub(super) async fn directory_replaced(
        &mut self,
        path: TreePath,
        three: Three,
    ) -> Result<Inside> {
        let (Some(base), Some(ours)) = (tree_of(&three.base), tree_of(&three.ours)) else {
            // Ours no longer has a directory there, so theirs counts as new.
            let three = Three {
                base: None,
                ..three
            };
            self.leaf(path, three).await?;
            return Ok(Inside::Skip);
        };
        if let Err(refusal) = self.check(&path, &three) {
            self.refuse(path, three.theirs.as_ref(), refusal);
            return Ok(Inside::Skip);
        }
        let kind = match self.rules.strategy(&path) {
            Strategy::Review => ConflictKind::Protected,
            _ => ConflictKind::FileAgainstDirectory,
        };
        let all = self.unstored().await?;
        if kind == ConflictKind::Protected
            || !only_removed(Diff::new(&all, base, ours)).await?
            || !self
                .is_harmless(&path, Diff::new(&all, ours, Tree::EMPTY))
                .await?
        {
            self.hold(path, three, kind);
            return Ok(Inside::Skip);
        }
        self.take_whole(path, three, ours.count + 1).await?;
        Ok(Inside::Skip)
    }

    /// Merges the permissions of a directory that theirs has. Returns whether
    /// to enter the directory.
    pub(super) async fn directory_mode(&mut self, path: TreePath, three: &Three) -> Result<Inside> {
        let Some(theirs) = mode_of(&three.theirs) else {
            return Ok(Inside::Enter);
        };
        let Some(ours) = mode_of(&three.ours) else {
            // Ours has no directory whose permissions could change.
            self.agree_directory(&path, theirs).await?;
            return Ok(Inside::Enter);
        };
        let base = mode_of(&three.base);
        let mut merged = merged_mode(base, ours, theirs);
        if let Err(refusal) = self.rules.view.check(&path, elevo_policy::Doing::Change) {
            if base.is_some() {
                self.refuse(path, three.theirs.as_ref(), refusal);
                return Ok(Inside::Enter);
            }
            // Both sides created the directory. If the agent may not change the
            // directory, the permissions of ours are kept.
            merged = ours;
        }
        if merged != ours && self.rules.strategy(&path) == Strategy::Review {
            self.hold(path, three.clone(), ConflictKind::Protected);
            return Ok(Inside::Skip);
        }
        self.agree_directory(&path, theirs).await?;
        if merged == ours {
            self.out.same += 1;
        } else {
            self.out.tree.set_mode(&path, merged).await?;
            self.landed(path, with_mode(ours), with_mode(merged), "mode");
        }
        Ok(Inside::Enter)
    }

    /// Removes the directories that theirs removed and that are now empty.
    pub(super) async fn remove_emptied(&mut self) -> Result<()> {
        while let Some(path) = self.emptied.pop() {
            if !is_empty_directory(&self.out.tree, &path).await? {
                // Ours has entries in the directory, or has removed the
                // directory.
                if is_empty_directory(&self.out.agreed, &path).await?
                    && !self.renames.hold_inside(&path)
                {
                    self.agree(&path, None).await?;
                }
                continue;
            }
            let base = self.base.entry(&path).await?;
            let ours = self.ours.entry(&path).await?;
            if let Err(refusal) = self.rules.check(&path, ours.as_ref(), None) {
                self.refuse(path, None, refusal);
            } else if self.rules.strategy(&path) == Strategy::Review {
                let three = Three {
                    base,
                    ours,
                    theirs: None,
                };
                self.hold(path, three, ConflictKind::Protected);
            } else {
                self.set(&path, None).await?;
                if !self.renames.hold_inside(&path) {
                    self.agree(&path, None).await?;
                }
                self.landed(path, ours, None, TAKE);
            }
        }
        Ok(())
    }

    async fn agree_directory(&mut self, path: &TreePath, mode: Mode) -> Result<()> {
        match self.out.agreed.stat(path).await? {
            Some(stat) if stat.kind == EntryKind::Directory => {
                self.out.agreed.set_mode(path, mode).await?;
            }
            _ => self.agree(path, with_mode(mode).as_ref()).await?,
        }
        Ok(())
    }

    /// Whether a directory is large enough to be taken as a whole, no file
    /// moved into it or out of it, and no path below it is known to prevent
    /// this.
    fn may_take_whole(&self, path: &TreePath, tree: Tree) -> bool {
        let known_harm = self
            .harm
            .as_ref()
            .is_some_and(|harm| harm.starts_with(path));
        tree.count > self.limits.whole && !known_harm && !self.renames.touch(path)
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

    /// Whether theirs may create or remove everything below `path`, and none of
    /// it is excluded from merges or needs a decision.
    async fn is_harmless(&mut self, path: &TreePath, mut inside: Diff) -> Result<bool> {
        while let Some(change) = inside.next().await? {
            let below = below(path, &change.path)?;
            let (base, theirs) = (change.kind.before(), change.kind.after());
            let is_directory = matches!(base.or(theirs), Some(Entry::Directory { .. }));
            let is_ignored = base.is_none()
                && self.rules.follows_gitignore()
                && self.locals.ignored(&below, is_directory).await?;
            if is_ignored
                || self.rules.is_local(&below, is_directory)
                || self.rules.check(&below, base, theirs).is_err()
                || self.rules.strategy(&below) == Strategy::Review
                || self.rules.unsettled.contains(&below)
            {
                self.harm = Some(below);
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a diff has only removals. Changed permissions of directories do not
/// count, because they are removed with the directory.
async fn only_removed(mut inside: Diff) -> Result<bool> {
    while let Some(change) = inside.next().await? {
        let goes = match &change.kind {
            ChangeKind::Removed(_) => true,
            ChangeKind::ModeChanged { after, .. } => matches!(after, Entry::Directory { .. }),
            _ => false,
        };
        if !goes {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) const TAKE: &str = "take";

/// A directory without its content.
const fn with_mode(mode: Mode) -> Option<Entry> {
    Some(Entry::Directory {
        mode,
        tree: Tree::EMPTY,
    })
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

async fn is_empty_directory(tree: &StateTree, path: &TreePath) -> Result<bool> {
    let stat = tree.stat(path).await?;
    Ok(stat.is_some_and(|stat| stat.kind == EntryKind::Directory)
        && tree.list(path, None, 1).await?.is_empty())
}
