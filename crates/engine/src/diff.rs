//! The changes from one tree to another, as a stream. The cost depends on the
//! number of changes: subtrees with equal hashes are not read.

mod pairs;

use std::collections::VecDeque;

use elevo_core::{Name, TreePath};
use elevo_objects::{DirItem, Entry, Tree};

use crate::error::Result;
use crate::repository::Repository;
use crate::state::EntryKind;
pub(crate) use pairs::Pairs;

/// One difference between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path of the entry.
    pub path: TreePath,
    /// Kind of change.
    pub kind: ChangeKind,
}

/// How an entry differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only the second tree has the entry.
    Added(Entry),
    /// Only the first tree has the entry.
    Removed(Entry),
    /// The content of a file or the target of a link differs, and maybe the
    /// mode.
    Modified {
        /// In the first tree.
        before: Entry,
        /// In the second tree.
        after: Entry,
    },
    /// Only the permission bits of a file or directory differ.
    ModeChanged {
        /// In the first tree.
        before: Entry,
        /// In the second tree.
        after: Entry,
    },
    /// The kind differs: a file became a directory, a directory a link, and so
    /// on. The content of a directory follows as removed or added.
    TypeChanged {
        /// In the first tree.
        before: Entry,
        /// In the second tree.
        after: Entry,
    },
}

impl ChangeKind {
    /// The entry in the first tree.
    pub const fn before(&self) -> Option<&Entry> {
        match self {
            Self::Added(_) => None,
            Self::Removed(before)
            | Self::Modified { before, .. }
            | Self::ModeChanged { before, .. }
            | Self::TypeChanged { before, .. } => Some(before),
        }
    }

    /// The entry in the second tree.
    pub const fn after(&self) -> Option<&Entry> {
        match self {
            Self::Removed(_) => None,
            Self::Added(after)
            | Self::Modified { after, .. }
            | Self::ModeChanged { after, .. }
            | Self::TypeChanged { after, .. } => Some(after),
        }
    }
}

/// The differences between two trees, in the order of a walk: each directory
/// before its content, names in byte order.
///
/// Memory is bounded by the depth of the trees, not by the number of changes.
#[derive(Debug)]
pub struct Diff {
    repository: Repository,
    stack: Vec<Level>,
    /// Whether the last level is the content of the entry of the difference
    /// that was returned last.
    entered: bool,
}

/// Number of differing entries of a directory that are examined together, so
/// that their subdirectories are loaded in one call.
const LOOK_AHEAD: usize = 64;

#[derive(Debug)]
struct Level {
    path: TreePath,
    pairs: Pairs<DirItem>,
    ready: VecDeque<(Option<DirItem>, Option<DirItem>)>,
}

impl Diff {
    /// Compares the trees `before` and `after` of `repository`.
    pub fn new(repository: &Repository, before: Tree, after: Tree) -> Self {
        let root = Level::new(TreePath::root(), before, after);
        Self {
            repository: repository.clone(),
            stack: vec![root],
            entered: false,
        }
    }

    /// The repository with the objects of both trees, including those of
    /// uncommitted changes.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Returns the next difference.
    pub async fn next(&mut self) -> Result<Option<Change>> {
        while let Some(level) = self.stack.last_mut() {
            let Some((before, after)) = level.next(&self.repository).await? else {
                self.stack.pop();
                continue;
            };
            let Some(name) = before
                .as_ref()
                .or(after.as_ref())
                .map(|item| item.name.clone())
            else {
                continue;
            };
            let (before, after) = (before.map(|item| item.entry), after.map(|item| item.entry));
            let below = level.below(&name, before.as_ref(), after.as_ref())?;
            let path = level.path.join(&name)?;
            self.entered = below.is_some();
            self.stack.extend(below);
            if let Some(kind) = classify(before, after) {
                return Ok(Some(Change { path, kind }));
            }
        }
        Ok(None)
    }

    /// Skips the content of the directory of the last difference.
    pub fn skip_inside(&mut self) {
        if std::mem::take(&mut self.entered) {
            self.stack.pop();
        }
    }

    /// Returns all differences, for when they are known to be few.
    pub async fn collect(mut self) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        while let Some(change) = self.next().await? {
            changes.push(change);
        }
        Ok(changes)
    }
}

impl Level {
    fn new(path: TreePath, before: Tree, after: Tree) -> Self {
        Self {
            path,
            pairs: Pairs::new(before.root, after.root),
            ready: VecDeque::new(),
        }
    }

    async fn next(
        &mut self,
        repository: &Repository,
    ) -> Result<Option<(Option<DirItem>, Option<DirItem>)>> {
        if self.ready.is_empty() {
            let mut roots = Vec::new();
            while self.ready.len() < LOOK_AHEAD {
                let Some(pair) = self.pairs.next(repository).await? else {
                    break;
                };
                let (before, after) = subtrees(&pair);
                if before != after {
                    roots.extend([before.root, after.root].into_iter().flatten());
                }
                self.ready.push_back(pair);
            }
            if roots.len() > 1 {
                repository.nodes::<DirItem>(&roots).await?;
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Returns the level below an entry, if its content differs.
    fn below(
        &self,
        name: &Name,
        before: Option<&Entry>,
        after: Option<&Entry>,
    ) -> Result<Option<Self>> {
        let (before, after) = (tree_of(before), tree_of(after));
        if before.root == after.root {
            return Ok(None);
        }
        Ok(Some(Self::new(self.path.join(name)?, before, after)))
    }
}

fn tree_of(entry: Option<&Entry>) -> Tree {
    match entry {
        Some(Entry::Directory { tree, .. }) => *tree,
        _ => Tree::EMPTY,
    }
}

fn subtrees(pair: &(Option<DirItem>, Option<DirItem>)) -> (Tree, Tree) {
    let tree = |item: &Option<DirItem>| tree_of(item.as_ref().map(|item| &item.entry));
    (tree(&pair.0), tree(&pair.1))
}

fn classify(before: Option<Entry>, after: Option<Entry>) -> Option<ChangeKind> {
    let (before, after) = match (before, after) {
        (None, None) => return None,
        (None, Some(after)) => return Some(ChangeKind::Added(after)),
        (Some(before), None) => return Some(ChangeKind::Removed(before)),
        (Some(before), Some(after)) => (before, after),
    };
    if EntryKind::of(&before) != EntryKind::of(&after) {
        return Some(ChangeKind::TypeChanged { before, after });
    }
    match (&before, &after) {
        (Entry::Directory { mode: old, .. }, Entry::Directory { mode: new, .. }) if old == new => {
            None
        }
        (Entry::Directory { .. }, _) => Some(ChangeKind::ModeChanged { before, after }),
        (Entry::File { content: old, .. }, Entry::File { content: new, .. }) if old == new => {
            Some(ChangeKind::ModeChanged { before, after })
        }
        _ => Some(ChangeKind::Modified { before, after }),
    }
}
