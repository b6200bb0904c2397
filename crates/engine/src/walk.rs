//! All entries of a tree with their times, each directory before its content.

use std::collections::VecDeque;

use elevo_core::{Timestamp, TreePath};
use elevo_objects::{DirItem, Entry, Hash, TimeItem, Tree};

use crate::error::Result;
use crate::repository::Repository;
use crate::tree::{AscendingLookup, Cursor};

/// The entries of a tree, in order. Memory is bounded by its depth.
pub struct Walk {
    repository: Repository,
    stack: Vec<Level>,
    /// Whether the last level is the content of the entry that was returned
    /// last.
    entered: bool,
}

/// An entry of a walk.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Path of the entry.
    pub path: TreePath,
    /// The entry.
    pub entry: Entry,
    /// Time of the last modification, if known.
    pub modified: Option<Timestamp>,
}

struct Level {
    path: TreePath,
    entries: Cursor<DirItem>,
    ready: VecDeque<DirItem>,
    times: AscendingLookup<TimeItem>,
}

impl Walk {
    /// Walks all of `tree`, whose time tree is `times`.
    pub async fn new(repository: &Repository, tree: Tree, times: Option<Hash>) -> Result<Self> {
        Self::below(repository, TreePath::root(), tree, times).await
    }

    /// Walks a directory at `path`.
    pub async fn below(
        repository: &Repository,
        path: TreePath,
        tree: Tree,
        times: Option<Hash>,
    ) -> Result<Self> {
        let root = Level::open(repository, path, tree, times).await?;
        Ok(Self {
            repository: repository.clone(),
            stack: vec![root],
            entered: false,
        })
    }

    /// Returns the next entry.
    pub async fn next(&mut self) -> Result<Option<Visit>> {
        while let Some(level) = self.stack.last_mut() {
            let Some(DirItem { name, entry }) = level.next().await? else {
                self.stack.pop();
                continue;
            };
            let path = level.path.join(&name)?;
            self.entered = false;
            let time = level.times.find(&name).await?.map(|item| item.entry);
            if let Entry::Directory { tree, .. } = &entry
                && tree.root.is_some()
            {
                let times = time.and_then(|time| time.children);
                let below = Level::open(&self.repository, path.clone(), *tree, times).await?;
                self.stack.push(below);
                self.entered = true;
            }
            let modified = time.and_then(|time| time.modified);
            return Ok(Some(Visit {
                path,
                entry,
                modified,
            }));
        }
        Ok(None)
    }

    /// Skips the content of the directory returned last.
    pub fn skip_inside(&mut self) {
        if std::mem::take(&mut self.entered) {
            self.stack.pop();
        }
    }
}

impl Level {
    async fn open(
        repository: &Repository,
        path: TreePath,
        tree: Tree,
        times: Option<Hash>,
    ) -> Result<Self> {
        let entries = Cursor::open(repository, tree.root, None).await?;
        let times = AscendingLookup::open(repository, times, None).await?;
        Ok(Self {
            path,
            entries,
            ready: VecDeque::new(),
            times,
        })
    }

    async fn next(&mut self) -> Result<Option<DirItem>> {
        if self.ready.is_empty() {
            self.ready = self.entries.next_leaf().await?.into();
        }
        Ok(self.ready.pop_front())
    }
}
