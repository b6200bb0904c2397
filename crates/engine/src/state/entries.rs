//! Trees taken apart and put together by whole entries, content unread: what a
//! merge is made of.

use std::sync::Arc;

use elevo_core::{Timestamp, TreePath};
use elevo_objects::{Entry, Hash, Mode, SnapshotId, Tree};

use super::directory::{Directory, Leaf, Slot};
use super::seal::{Sealed, seal};
use super::{CommitInfo, StateTree};
use crate::error::{Error, Result};
use crate::store::{Commit, Object};

impl StateTree {
    /// The entry at `path`, as a directory names it; `None` if nothing is
    /// there. The root is none.
    pub async fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        if path.is_root() {
            return Err(Error::Root);
        }
        let state = self.current();
        Ok(match state.lookup(&self.repository, path).await? {
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

    /// A directory and its times, as they are or would be stored.
    pub async fn directory(&self, path: &TreePath) -> Result<(Tree, Option<Hash>)> {
        let state = self.current();
        match state.lookup(&self.repository, path).await? {
            Some(Slot::Directory { directory, .. }) if directory.changes.is_empty() => {
                Ok((directory.tree, directory.times))
            }
            Some(Slot::Directory { directory, .. }) => {
                let sealed = seal(&self.repository, &directory).await?;
                Ok((sealed.tree, sealed.times))
            }
            Some(_) => Err(Error::NotADirectory(path.clone())),
            None => Err(Error::NotFound(path.clone())),
        }
    }

    /// Puts a file or a link whose content is stored at `path`, replacing what
    /// is there but a directory; makes the directories it needs.
    pub async fn put_leaf(
        &self,
        path: &TreePath,
        entry: Entry,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        if matches!(entry, Entry::Directory { .. }) {
            return Err(Error::NotAFile(path.clone()));
        }
        let place = self.place(path, true).await?;
        place.file_mode()?;
        let leaf = Leaf {
            entry,
            modified,
            pending: None,
        };
        self.put_back(place, Slot::Leaf(leaf));
        Ok(())
    }

    /// Makes what is at `path` a directory of this mode and time. One that is
    /// there keeps what is in it; anything else is replaced.
    pub async fn put_directory(
        &self,
        path: &TreePath,
        mode: Mode,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        let mut place = self.place(path, true).await?;
        let directory = match place.slot.take() {
            Some(Slot::Directory { directory, .. }) => directory,
            _ => Arc::default(),
        };
        let slot = Slot::Directory {
            mode,
            modified,
            directory,
        };
        self.put_back(place, slot);
        Ok(())
    }

    /// Stores objects that entries put later will need, ahead of the commit.
    pub async fn put_objects(&self, objects: Vec<Object>) -> Result<()> {
        self.repository.put_ahead(objects).await
    }

    /// Stores what has changed so far and forgets it: memory is as if the tree
    /// had just been opened. Nothing refers to what was stored until
    /// [`Self::commit`]. Tells the tree and its times.
    pub async fn settle(&self) -> Result<(Tree, Option<Hash>)> {
        let _writer = self.writer.lock().await;
        let Sealed {
            tree,
            times,
            objects,
        } = self.seal_ahead().await?;
        self.put_objects(objects).await?;
        let root = Arc::new(Directory::stored(tree, times));
        self.publish(root, self.current().held);
        Ok((tree, times))
    }

    /// What [`Self::commit`] would hand to the store, for a caller who stores
    /// several snapshots in one batch. Storing it is up to the caller; the bulk
    /// of a large one is put ahead.
    pub async fn staged(&self, info: CommitInfo) -> Result<(SnapshotId, Commit)> {
        let Sealed {
            tree,
            times,
            objects,
        } = self.seal_ahead().await?;
        info.into_commit(tree, times, objects)
    }

    /// Where the objects of this tree are.
    pub fn repository(&self) -> &crate::Repository {
        &self.repository
    }
}
