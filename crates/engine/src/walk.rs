//! All entries of a tree with their times, each directory before what is in it.

use std::collections::VecDeque;

use elevo_core::{Timestamp, TreePath};
use elevo_objects::{DirItem, Entry, Hash, TimeItem, Tree};

use crate::error::Result;
use crate::repository::Repository;
use crate::tree::{Cursor, Run};

pub(crate) struct Walk {
    repository: Repository,
    stack: Vec<Level>,
}

/// An entry met on a walk.
pub(crate) struct Visit {
    pub(crate) path: TreePath,
    pub(crate) entry: Entry,
    pub(crate) modified: Option<Timestamp>,
}

struct Level {
    path: TreePath,
    entries: Cursor<DirItem>,
    ready: VecDeque<DirItem>,
    times: Run<TimeItem>,
}

impl Walk {
    pub(crate) async fn new(
        repository: &Repository,
        tree: Tree,
        times: Option<Hash>,
    ) -> Result<Self> {
        let root = Level::open(repository, TreePath::root(), tree, times).await?;
        Ok(Self {
            repository: repository.clone(),
            stack: vec![root],
        })
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Visit>> {
        while let Some(level) = self.stack.last_mut() {
            let Some(DirItem { name, entry }) = level.next().await? else {
                self.stack.pop();
                continue;
            };
            let path = level.path.join(&name)?;
            let time = level.times.find(&name).await?.map(|item| item.entry);
            if let Entry::Directory { tree, .. } = &entry
                && tree.root.is_some()
            {
                let times = time.and_then(|time| time.children);
                let below = Level::open(&self.repository, path.clone(), *tree, times).await?;
                self.stack.push(below);
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
}

impl Level {
    async fn open(
        repository: &Repository,
        path: TreePath,
        tree: Tree,
        times: Option<Hash>,
    ) -> Result<Self> {
        let entries = Cursor::open(repository, tree.root, None).await?;
        let times = Run::open(repository, times).await?;
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
