//! Changes to a tree.

use std::sync::Arc;

use bytes::Bytes;
use elevo_core::{Timestamp, TreePath};
use elevo_objects::{Entry, Kind, Link, MAX_LINK_BYTES, Mode};

use super::directory::{Directory, Leaf, Slot, pending};
use super::position::MissingParents;
use super::{Attributes, StateTree};
use crate::error::{Error, Result};
use crate::file;
use crate::store::Object;

/// Maximum bytes that a file keeps in memory before it is pruned.
const MAX_PENDING_BYTES: usize = 8 * 1024 * 1024;

impl StateTree {
    /// Writes a whole file. Replaces an existing entry unless it is a
    /// directory; creates parent directories.
    pub async fn write(&self, path: &TreePath, data: Bytes, attributes: Attributes) -> Result<()> {
        let (content, objects) = file::content_of(data);
        let position = self.position(path, MissingParents::Create).await?;
        let mode = attributes
            .mode
            .or(position.file_mode()?)
            .unwrap_or(Mode::FILE);
        let leaf = Leaf {
            entry: Entry::File { mode, content },
            modified: attributes.modified,
            pending: pending(objects),
        };
        self.replace(position, Slot::Leaf(leaf));
        Ok(())
    }

    /// Overwrites a range of a file. A range that ends beyond the file extends
    /// it; a gap before the range is filled with zeros.
    pub async fn write_at(&self, path: &TreePath, offset: u64, data: Bytes) -> Result<()> {
        let length = data.len() as u64;
        self.splice(path, offset, length, data).await
    }

    /// Truncates a file to `size` bytes, or extends it with zeros to that size.
    pub async fn truncate(&self, path: &TreePath, size: u64) -> Result<()> {
        self.splice(path, size, u64::MAX, Bytes::new()).await
    }

    /// Replaces `remove` bytes of a file at `offset` by `insert`. The cost
    /// depends on the range, not on the size of the file. The modification time
    /// becomes unknown.
    pub async fn splice(
        &self,
        path: &TreePath,
        offset: u64,
        remove: u64,
        insert: Bytes,
    ) -> Result<()> {
        let position = self.position(path, MissingParents::Fail).await?;
        let leaf = match &position.slot {
            Some(Slot::Leaf(leaf)) => leaf,
            Some(_) => return Err(Error::NotAFile(path.clone())),
            None => return Err(Error::NotFound(path.clone())),
        };
        let Entry::File { mode, content } = &leaf.entry else {
            return Err(Error::NotAFile(path.clone()));
        };
        let repository = self.with_pending(leaf);
        let (content, objects) = file::splice(&repository, content, offset, remove, insert).await?;
        let mut pending = leaf.pending.clone();
        if !objects.is_empty() {
            let known = Arc::make_mut(pending.get_or_insert_default());
            known.extend(objects.into_iter().map(|object| (object.key, object.data)));
        }
        let changed = Leaf {
            entry: Entry::File {
                mode: *mode,
                content,
            },
            modified: None,
            pending,
        };
        let unloaded = self.unload(changed).await?;
        self.replace(position, Slot::Leaf(unloaded));
        Ok(())
    }

    /// Creates a symbolic link. Replaces an existing entry unless it is a
    /// directory.
    pub async fn symlink(&self, path: &TreePath, target: Bytes) -> Result<()> {
        if target.is_empty() || target.len() > MAX_LINK_BYTES || target.contains(&0) {
            return Err(Error::LinkTarget);
        }
        let key = Kind::Chunk.key(&target);
        let link = Link {
            hash: key.hash,
            size: target.len() as u64,
        };
        let position = self.position(path, MissingParents::Create).await?;
        position.file_mode()?;
        let pending = pending(vec![Object { key, data: target }]);
        self.replace(
            position,
            Slot::Leaf(Leaf {
                entry: Entry::Link(link),
                modified: None,
                pending,
            }),
        );
        Ok(())
    }

    /// Creates a directory and its parents. An existing directory is unchanged.
    pub async fn make_directory(&self, path: &TreePath, mode: Mode) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let position = self.position(path, MissingParents::Create).await?;
        match position.slot {
            Some(Slot::Directory { .. }) => Ok(()),
            Some(_) => Err(Error::NotADirectory(path.clone())),
            None => {
                let directory = Arc::new(Directory::default());
                self.replace(
                    position,
                    Slot::Directory {
                        mode,
                        modified: None,
                        directory,
                    },
                );
                Ok(())
            }
        }
    }

    /// Sets the permission bits of a file or directory. Links have none.
    pub async fn set_mode(&self, path: &TreePath, mode: Mode) -> Result<()> {
        let mut position = self.position(path, MissingParents::Fail).await?;
        let slot = match position.slot.take() {
            Some(Slot::Directory {
                modified,
                directory,
                ..
            }) => Slot::Directory {
                mode,
                modified,
                directory,
            },
            Some(Slot::Leaf(leaf)) => match leaf.entry {
                Entry::File { content, .. } => Slot::Leaf(Leaf {
                    entry: Entry::File { mode, content },
                    ..leaf
                }),
                _ => return Err(Error::NotAFile(path.clone())),
            },
            _ => return Err(Error::NotFound(path.clone())),
        };
        self.replace(position, slot);
        Ok(())
    }

    /// Sets or clears the modification time of an entry.
    pub async fn set_modified(&self, path: &TreePath, modified: Option<Timestamp>) -> Result<()> {
        let mut position = self.position(path, MissingParents::Fail).await?;
        let slot = match position.slot.take() {
            Some(Slot::Directory {
                mode, directory, ..
            }) => Slot::Directory {
                mode,
                modified,
                directory,
            },
            Some(Slot::Leaf(leaf)) => Slot::Leaf(Leaf { modified, ..leaf }),
            _ => return Err(Error::NotFound(path.clone())),
        };
        self.replace(position, slot);
        Ok(())
    }

    /// Removes a file, a link, or a directory with its content.
    pub async fn remove(&self, path: &TreePath) -> Result<()> {
        let position = self.position(path, MissingParents::Fail).await?;
        if position.slot.is_none() {
            return Err(Error::NotFound(path.clone()));
        }
        self.replace(position, Slot::Absent);
        Ok(())
    }

    /// Moves an entry with its content, replacing an entry at `to`; creates
    /// parent directories.
    pub async fn rename(&self, from: &TreePath, to: &TreePath) -> Result<()> {
        if from == to {
            let found = self.current().lookup(&self.repository, from).await?;
            return found.map(drop).ok_or_else(|| Error::NotFound(from.clone()));
        }
        if to.starts_with(from) {
            return Err(Error::IntoItself(from.clone()));
        }
        if from.starts_with(to) {
            return Err(Error::NotADirectory(to.clone()));
        }
        let source = self.position(from, MissingParents::Fail).await?;
        let moved = source
            .slot
            .clone()
            .ok_or_else(|| Error::NotFound(from.clone()))?;
        let (without, guard) = source.replaced_by(Slot::Absent);
        let target = self
            .position_in(without, to, MissingParents::Create, guard)
            .await?;
        self.replace(target, moved);
        Ok(())
    }

    /// Discards a file's superseded objects when they have piled up, and puts
    /// the others into the store if there are many.
    async fn unload(&self, mut leaf: Leaf) -> Result<Leaf> {
        if leaf.pending_bytes() > MAX_PENDING_BYTES {
            leaf.prune()?;
            if leaf.pending_bytes() > MAX_PENDING_BYTES / 2 {
                let objects = leaf.take_pending();
                self.repository.put_ahead(objects).await?;
            }
        }
        Ok(leaf)
    }
}
