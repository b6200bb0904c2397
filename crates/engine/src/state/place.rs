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
pub(super) struct Place<'a> {
    above: Vec<Above>,
    directory: Arc<Directory>,
    name: Name,
    /// The present entry.
    pub(super) slot: Option<Slot>,
    path: TreePath,
    held: Option<Arc<Guard>>,
    guard: MutexGuard<'a, ()>,
}

struct Above {
    directory: Arc<Directory>,
    name: Name,
    mode: Mode,
    modified: Option<Timestamp>,
}

impl<'a> Place<'a> {
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

    /// Returns the state of the tree with `slot` in this place.
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
            ahead: None,
        };
        (state, self.guard)
    }
}

impl StateTree {
    /// Finds the position of a write, and locks out other writers until it is
    /// done.
    pub(super) async fn place(&self, path: &TreePath, make_parents: bool) -> Result<Place<'_>> {
        let guard = self.writer.lock().await;
        self.place_in(self.current(), path, make_parents, guard)
            .await
    }

    pub(super) async fn place_in<'a>(
        &'a self,
        state: State,
        path: &TreePath,
        make_parents: bool,
        guard: MutexGuard<'a, ()>,
    ) -> Result<Place<'a>> {
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
                None if make_parents => (Mode::EXECUTABLE, None, Arc::default()),
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
        Ok(Place {
            above,
            directory,
            name,
            slot,
            path: path.clone(),
            held,
            guard,
        })
    }

    pub(super) fn put_back(&self, place: Place<'_>, slot: Slot) {
        let (state, _guard) = place.replaced_by(slot);
        self.publish(state.root, state.held);
    }
}
