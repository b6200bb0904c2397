//! Entries of an archive that is a layer of an image.

use std::collections::VecDeque;

use elevo_core::{Name, Timestamp, TreePath};
use elevo_engine::{Diff, Error as EngineError, StateTree, Workers};
use elevo_objects::{Content, Entry, Mode, Snapshot, Tree};

use super::plain::below;
use super::{Export, Item, Source};
use crate::error::{Error, Result};
use crate::whiteout::Whiteout;

/// Number of names that are listed at a time.
const PAGE: usize = 256;

/// The differences between two snapshots at a path, as a layer over the first.
pub(super) struct Layer<F> {
    changes: Diff,
    base: StateTree,
    tree: StateTree,
    path: TreePath,
    shows: F,
    created: Timestamp,
    /// Directories that were written and may get more entries.
    open: Vec<TreePath>,
    /// The directory that has an opaque whiteout, because all its entries of
    /// the base are gone.
    opaque: Option<TreePath>,
    ready: VecDeque<Item>,
}

impl<F: FnMut(&TreePath, bool) -> bool> Layer<F> {
    pub(super) async fn open(export: &Export<'_>, base: &Snapshot, shows: F) -> Result<Self> {
        let base = StateTree::at(export.repository, base);
        let tree = StateTree::at(export.repository, export.snapshot);
        let before = match base.directory(export.path).await {
            Ok((before, _)) => before,
            Err(EngineError::NotADirectory(_) | EngineError::NotFound(_)) => Tree::EMPTY,
            Err(error) => return Err(error.into()),
        };
        let (after, _) = tree.directory(export.path).await?;
        Ok(Self {
            changes: Diff::new(export.repository, before, after),
            base,
            tree,
            path: export.path.clone(),
            shows,
            created: export.snapshot.created,
            open: Vec::new(),
            opaque: None,
            ready: VecDeque::new(),
        })
    }

    /// Takes the next change. Returns whether there was one.
    async fn advance(&mut self) -> Result<bool> {
        let Some(change) = self.changes.next().await? else {
            return Ok(false);
        };
        let path = join(&self.path, &change.path)?;
        let told = change.kind.after().or(change.kind.before());
        let is_directory = matches!(told, Some(Entry::Directory { .. }));
        if !(self.shows)(&path, is_directory) {
            self.changes.skip_inside();
            return Ok(true);
        }
        match change.kind.after() {
            Some(entry) => {
                let entry = entry.clone();
                if !is_directory {
                    self.changes.skip_inside();
                }
                self.open_above(&path).await?;
                self.tell(&path, entry).await?;
            }
            None => {
                // The whiteout of a directory covers its content.
                self.changes.skip_inside();
                self.open_above(&path).await?;
                self.tell_gone(&path).await?;
            }
        }
        Ok(true)
    }

    async fn tell_gone(&mut self, path: &TreePath) -> Result<()> {
        let Some((directory, name)) = path.split_last() else {
            return Ok(());
        };
        if self.opaque.as_ref() == Some(&directory) {
            return Ok(());
        }
        let whiteout = if self.is_all_gone(&directory).await? {
            self.opaque = Some(directory.clone());
            Whiteout::Opaque
        } else {
            Whiteout::Of(name)
        };
        let too_long = |_| Error::refused(path.as_bytes(), "its name is too long for a layer");
        let name = whiteout.name().map_err(too_long)?;
        let path = directory.join(&name).map_err(EngineError::from)?;
        self.ready.push_back(Item {
            name: below(&self.path, &path)?,
            entry: Entry::File {
                mode: Mode::FILE,
                content: Content::Empty,
            },
            modified: self.created,
            chunk: None,
        });
        Ok(())
    }

    /// Whether no entry of the base is left in a directory.
    async fn is_all_gone(&self, directory: &TreePath) -> Result<bool> {
        let mut after: Option<Name> = None;
        loop {
            let page = self.base.list(directory, after.as_ref(), PAGE).await?;
            for (name, _) in &page {
                let path = directory.join(name).map_err(EngineError::from)?;
                if self.tree.stat(&path).await?.is_some() {
                    return Ok(false);
                }
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => after = Some(last.clone()),
                _ => return Ok(true),
            }
        }
    }

    /// Writes the directories above `path` that were not written yet, because
    /// programs that unpack layers expect them.
    async fn open_above(&mut self, path: &TreePath) -> Result<()> {
        while self.open.pop_if(|open| !path.starts_with(open)).is_some() {}
        let mut missing = Vec::new();
        let mut above = path.split_last().map(|(above, _)| above);
        while let Some(directory) = above {
            if directory == self.path || self.open.last() == Some(&directory) {
                break;
            }
            above = directory.split_last().map(|(above, _)| above);
            missing.push(directory);
        }
        for directory in missing.into_iter().rev() {
            let Some(stat) = self.tree.stat(&directory).await? else {
                continue;
            };
            let entry = Entry::Directory {
                mode: stat.mode,
                tree: Tree::EMPTY,
            };
            self.tell(&directory, entry).await?;
        }
        Ok(())
    }

    async fn tell(&mut self, path: &TreePath, entry: Entry) -> Result<()> {
        let name = path.split_last().map(|(_, name)| name);
        if name.is_some_and(|name| Whiteout::parse(name.as_bytes()).is_some()) {
            let why = "its name is reserved for whiteouts in a layer";
            return Err(Error::refused(path.as_bytes(), why));
        }
        if matches!(entry, Entry::Directory { .. }) {
            self.open.push(path.clone());
        }
        let stat = self.tree.stat(path).await?;
        self.ready.push_back(Item {
            name: below(&self.path, path)?,
            entry,
            modified: stat.and_then(|stat| stat.modified).unwrap_or(self.created),
            chunk: None,
        });
        Ok(())
    }
}

impl<F: FnMut(&TreePath, bool) -> bool + Send> Source for Layer<F> {
    fn next(&mut self, workers: &Workers) -> Result<Option<Item>> {
        while self.ready.is_empty() {
            if !workers.wait(self.advance())? {
                return Ok(None);
            }
        }
        Ok(self.ready.pop_front())
    }
}

fn join(directory: &TreePath, inside: &TreePath) -> Result<TreePath> {
    let mut path = directory.clone();
    for name in inside.names() {
        path = path.join(&name).map_err(EngineError::from)?;
    }
    Ok(path)
}
