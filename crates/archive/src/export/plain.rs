//! Entries of an archive of a whole tree.

use elevo_core::{Timestamp, TreePath};
use elevo_engine::{Error as EngineError, StateTree, Visit, Walk, Workers};

use super::{Export, Item, Source};
use crate::error::Result;

/// All entries at a path of a snapshot.
pub(super) struct Plain<F> {
    walk: Option<Walk>,
    /// The entry at the path, if it is not a directory, until it is written.
    alone: Option<Visit>,
    base: TreePath,
    shows: F,
    /// The modification time for entries whose time is unknown.
    created: Timestamp,
}

impl<F: FnMut(&TreePath, bool) -> bool> Plain<F> {
    pub(super) async fn open(export: &Export<'_>, shows: F) -> Result<Self> {
        let Export {
            repository,
            snapshot,
            path,
            ..
        } = *export;
        let mut plain = Self {
            walk: None,
            alone: None,
            base: path.clone(),
            shows,
            created: snapshot.created,
        };
        let tree = StateTree::at(repository, snapshot);
        match tree.directory(path).await {
            Ok((inside, times)) => {
                let walk = Walk::below(repository, path.clone(), inside, times).await?;
                plain.walk = Some(walk);
            }
            Err(EngineError::NotADirectory(_)) => {
                let missing = || EngineError::NotFound(path.clone());
                let entry = tree.entry(path).await?.ok_or_else(missing)?;
                let stat = tree.stat(path).await?;
                plain.base = path
                    .split_last()
                    .map(|(above, _)| above)
                    .unwrap_or_default();
                plain.alone = Some(Visit {
                    path: path.clone(),
                    entry,
                    modified: stat.and_then(|stat| stat.modified),
                });
            }
            Err(error) => return Err(error.into()),
        }
        Ok(plain)
    }
}

impl<F: FnMut(&TreePath, bool) -> bool + Send> Source for Plain<F> {
    fn next(&mut self, workers: &Workers) -> Result<Option<Item>> {
        loop {
            let visit = match (self.alone.take(), &mut self.walk) {
                (Some(alone), _) => Some(alone),
                (None, Some(walk)) => workers.wait(walk.next())?,
                (None, None) => None,
            };
            let Some(visit) = visit else {
                return Ok(None);
            };
            let is_directory = matches!(visit.entry, elevo_objects::Entry::Directory { .. });
            if !(self.shows)(&visit.path, is_directory) {
                if let Some(walk) = &mut self.walk {
                    walk.skip_inside();
                }
                continue;
            }
            return Ok(Some(Item {
                name: below(&self.base, &visit.path)?,
                entry: visit.entry,
                modified: visit.modified.unwrap_or(self.created),
                chunk: None,
            }));
        }
    }
}

/// A path relative to a directory above it.
pub(super) fn below(directory: &TreePath, path: &TreePath) -> Result<TreePath> {
    let rest = path.as_bytes().get(directory.as_bytes().len()..);
    let after = rest.unwrap_or_default();
    let relative = after.strip_prefix(b"/").unwrap_or(after);
    Ok(TreePath::new(relative).map_err(EngineError::from)?)
}
