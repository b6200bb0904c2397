//! Reads and writes whole entries of a tree without their content, for
//! merges.

use std::sync::Arc;

use elevo_core::{Timestamp, TreePath};
use elevo_objects::{Entry, Hash, Mode, SnapshotId, Tree};

use super::directory::{Directory, Leaf, Slot};
use super::position::MissingParents;
use super::seal::{Sealed, seal};
use super::{CommitInfo, StateTree};
use crate::error::{Error, Result};
use crate::store::{Commit, Object};

impl StateTree {
    /// Returns the entry at `path` as its directory stores it; `None` if
    /// nothing exists there. The root has no entry and is an error.
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
                let tree = if directory.changes.is_empty() {
                    directory.tree
                } else {
                    seal(&self.repository, &directory).await?.tree
                };
                Some(Entry::Directory { mode, tree })
            }
            Some(Slot::Absent) | None => None,
        })
    }

    /// Puts an entry at `path`. The content of the entry must already be
    /// stored. Replaces an existing entry of any kind, and creates parent
    /// directories. The entry and everything in it get no modification times.
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
        let position = self.position(path, MissingParents::Create).await?;
        self.replace(position, slot);
        Ok(())
    }

    /// Returns a directory and its time tree, as they are or would be stored.
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

    /// Puts a file or a link at `path`. Its content must already be stored.
    /// Replaces an existing entry unless it is a directory; creates parent
    /// directories.
    pub async fn put_leaf(
        &self,
        path: &TreePath,
        entry: Entry,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        if matches!(entry, Entry::Directory { .. }) {
            return Err(Error::NotAFile(path.clone()));
        }
        let position = self.position(path, MissingParents::Create).await?;
        position.file_mode()?;
        let leaf = Leaf {
            entry,
            modified,
            pending: None,
        };
        self.replace(position, Slot::Leaf(leaf));
        Ok(())
    }

    /// Makes `path` a directory with this mode and time. An existing directory
    /// keeps its content; any other entry is replaced.
    pub async fn put_directory(
        &self,
        path: &TreePath,
        mode: Mode,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        let mut position = self.position(path, MissingParents::Create).await?;
        let directory = match position.slot.take() {
            Some(Slot::Directory { directory, .. }) => directory,
            _ => Arc::default(),
        };
        let slot = Slot::Directory {
            mode,
            modified,
            directory,
        };
        self.replace(position, slot);
        Ok(())
    }

    /// Stores objects ahead of the commit, for entries that are put later.
    pub async fn put_objects(&self, objects: Vec<Object>) -> Result<()> {
        self.repository.put_ahead(objects).await
    }

    /// Stores the changes so far and releases their memory, as if the tree had
    /// just been opened. Nothing refers to the stored objects until
    /// [`Self::commit`]. Returns the tree and its time tree.
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

    /// Returns the commit that [`Self::commit`] would make, for a caller that
    /// stores several snapshots in one batch. The caller has to store the commit
    /// while this tree or a clone of it exists: if the commit is large, most of
    /// its objects have been put ahead of it, by a writer of the tree.
    pub async fn staged(&self, info: CommitInfo) -> Result<(SnapshotId, Commit)> {
        let Sealed {
            tree,
            times,
            objects,
        } = self.seal_ahead().await?;
        let after = self.repository.ids_of_writers_ahead();
        info.into_commit(tree, times, objects, after)
    }

    /// The repository with the objects of this tree.
    pub fn repository(&self) -> &crate::Repository {
        &self.repository
    }
}
