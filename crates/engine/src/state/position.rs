//! The position of a write in a tree.

use std::sync::Arc;

use elevo_core::{Name, Timestamp, TreePath};
use elevo_objects::{Entry, Mode};
use tokio::sync::MutexGuard;

use super::directory::{Directory, Leaf, Slot};
use super::{State, StateTree};
use crate::error::{Error, Result};
use crate::guards::Guard;

/// The position of a write: the entry, and the directories on the path to it.
pub(super) struct WritePosition<'a> {
    above: Vec<Above>,
    directory: Arc<Directory>,
    name: Name,
    /// The present entry.
    pub(super) slot: Option<Slot>,
    path: TreePath,
    held: Option<Arc<Guard>>,
    guard: MutexGuard<'a, ()>,
}

/// A directory on the path, with its own entry in the directory above it.
struct Above {
    directory: Arc<Directory>,
    name: Name,
    mode: Mode,
    modified: Option<Timestamp>,
}

/// Treatment of directories that are missing on the path of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingParents {
    Create,
    Fail,
}

impl<'a> WritePosition<'a> {
    /// Returns the mode of the file that a write would replace. Fails for a
    /// directory, which cannot be replaced.
    pub(super) fn file_mode(&self) -> Result<Option<Mode>> {
        match &self.slot {
            Some(Slot::Directory { .. }) => Err(Error::NotAFile(self.path.clone())),
            Some(Slot::Leaf(Leaf {
                entry: Entry::File { mode, .. },
                ..
            })) => Ok(Some(*mode)),
            _ => Ok(None),
        }
    }

    /// Returns the state of the tree with `slot` at this position. Every
    /// directory on the path is copied, since readers keep the old ones.
    pub(super) fn replaced_by(self, slot: Slot) -> (State, MutexGuard<'a, ()>) {
        let mut changed = Arc::new(self.directory.with(self.name, slot));
        for above in self.above.into_iter().rev() {
            let slot = Slot::Directory {
                mode: above.mode,
                modified: above.modified,
                directory: changed,
            };
            changed = Arc::new(above.directory.with(above.name, slot));
        }
        let state = State {
            root: changed,
            held: self.held,
            ahead: Vec::new(),
        };
        (state, self.guard)
    }
}

impl StateTree {
    /// Finds the position of a write, and locks out other writers until it is
    /// done.
    pub(super) async fn position(
        &self,
        path: &TreePath,
        parents: MissingParents,
    ) -> Result<WritePosition<'_>> {
        let guard = self.writer.lock().await;
        self.position_in(self.current(), path, parents, guard).await
    }

    /// Like [`position`](Self::position), in a state that is not published yet.
    pub(super) async fn position_in<'a>(
        &'a self,
        state: State,
        path: &TreePath,
        parents: MissingParents,
        guard: MutexGuard<'a, ()>,
    ) -> Result<WritePosition<'a>> {
        let Some((parent, name)) = path.split_last() else {
            return Err(Error::Root);
        };
        let State { root, held, .. } = state;
        let mut directory = root;
        let mut above = Vec::new();
        for step in parent.names() {
            let found = directory.find(&self.repository, &step).await?;
            let (mode, modified, child) = match found {
                Some(Slot::Directory {
                    mode,
                    modified,
                    directory,
                }) => (mode, modified, directory),
                None if parents == MissingParents::Create => {
                    (Mode::EXECUTABLE, None, Arc::default())
                }
                None => return Err(Error::NotFound(path.clone())),
                Some(_) => return Err(Error::NotADirectory(parent.clone())),
            };
            above.push(Above {
                directory,
                name: step,
                mode,
                modified,
            });
            directory = child;
        }
        let slot = directory.find(&self.repository, &name).await?;
        Ok(WritePosition {
            above,
            directory,
            name,
            slot,
            path: path.clone(),
            held,
            guard,
        })
    }

    /// Publishes the tree with `slot` at a position, and admits the next writer.
    pub(super) fn replace(&self, position: WritePosition<'_>, slot: Slot) {
        let (state, _guard) = position.replaced_by(slot);
        self.publish(state.root, state.held);
    }
}
