//! Trees taken apart and put together by whole entries, content unread: what a
//! merge is made of.

use std::sync::Arc;

use elevo_core::TreePath;
use elevo_objects::{Entry, SnapshotId};

use super::directory::{Directory, Leaf, Slot};
use super::seal::{Sealed, seal};
use super::{CommitInfo, StateTree};
use crate::error::{Error, Result};
use crate::store::Commit;

impl StateTree {
    /// The entry at `path`, as a directory names it; `None` if nothing is
    /// there. The root is none.
    pub async fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        if path.is_root() {
            return Err(Error::Root);
        }
        Ok(match self.lookup(path).await? {
            Some(Slot::Leaf(leaf)) => Some(leaf.entry),
            Some(Slot::Directory {
                mode, directory, ..
            }) => {
                let tree = match directory.changes.is_empty() {
                    true => directory.tree,
                    false => seal(&self.repository, &directory).await?.tree,
                };
                Some(Entry::Directory { mode, tree })
            }
            Some(Slot::Absent) | None => None,
        })
    }

    /// Puts an entry whose content is stored at `path`, replacing whatever is
    /// there; makes the directories it needs. It has no modification time, and
    /// neither has what is in it.
    pub async fn put(&self, path: &TreePath, entry: Entry) -> Result<()> {
        let slot = match entry {
            Entry::Directory { mode, tree } => Slot::Directory {
                mode,
                modified: None,
                directory: Arc::new(Directory::stored(tree, None)),
            },
            entry => Slot::Leaf(Leaf {
                entry,
                modified: None,
                pending: None,
            }),
        };
        let place = self.place(path, true).await?;
        self.put_back(place, slot);
        Ok(())
    }

    /// What [`Self::commit`] would hand to the store, for a caller who stores
    /// several snapshots in one batch. Storing it is up to the caller; the bulk
    /// of a large one is put ahead.
    pub async fn staged(&self, info: CommitInfo) -> Result<(SnapshotId, Commit)> {
        let Sealed {
            tree,
            times,
            objects,
        } = seal(&self.repository, &self.current()).await?;
        let objects = self.put_ahead(objects).await?;
        info.into_commit(tree, times, objects)
    }

    /// Where the objects of this tree are.
    pub fn repository(&self) -> &crate::Repository {
        &self.repository
    }
}
