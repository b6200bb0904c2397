//! A tree of files that can be edited: a stored state with changes in memory.
//! See [`StateTree`].

mod commit;
mod directory;
mod entries;
mod position;
mod seal;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use elevo_core::{Name, Timestamp, TreePath};
use elevo_objects::{Entry, Mode, Snapshot, SnapshotId, Tree};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::diff::Diff;
use crate::error::{Error, Result};
use crate::file;
use crate::guards::{Guard, Writer};
use crate::repository::Repository;
pub use commit::CommitInfo;
use directory::{Directory, Leaf, Slot};
use seal::seal;

/// A tree of files in memory, on top of a stored one.
///
/// Reading loads objects on demand; writing keeps new objects in memory until
/// [`Self::commit`] (beyond some megabytes, a file's chunks are stored ahead of
/// it). Cloning takes no time and shares everything; a clone and its original
/// then change independently.
///
/// Safe for many threads: each operation is atomic, readers see the state
/// before or after a write and never wait for one, writers wait for each other.
#[derive(Debug)]
pub struct StateTree {
    repository: Repository,
    root: RwLock<State>,
    writer: Mutex<()>,
}

/// The state of a tree at one moment. Its guard and its writers, if any, keep its
/// stored objects from garbage collection while a copy of it exists.
#[derive(Clone, Debug)]
struct State {
    root: Arc<Directory>,
    /// Holds the snapshot that the tree was opened at or committed as.
    held: Option<Arc<Guard>>,
    /// Have put objects ahead of the next commit.
    ahead: Vec<Arc<Writer>>,
}

/// Metadata of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// File, directory or link.
    pub kind: EntryKind,
    /// Permission bits; all of them are set for a link.
    pub mode: Mode,
    /// Bytes of a file or of a link's target; 0 for a directory.
    pub size: u64,
    /// Time of the last modification, if known.
    pub modified: Option<Timestamp>,
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

impl EntryKind {
    /// The kind of a directory entry.
    pub const fn of(entry: &Entry) -> Self {
        match entry {
            Entry::File { .. } => Self::File,
            Entry::Directory { .. } => Self::Directory,
            Entry::Link(_) => Self::Link,
        }
    }
}

/// Attributes for writing a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    /// Permission bits; `None` keeps the present ones, or `rw-r--r--` for a new
    /// file.
    pub mode: Option<Mode>,
    /// Modification time. With `None`, no time is stored, and a checkout leaves
    /// the time at which it writes the file.
    pub modified: Option<Timestamp>,
}

impl Clone for StateTree {
    fn clone(&self) -> Self {
        Self {
            repository: self.repository.with_own_writers(),
            root: RwLock::new(self.current()),
            writer: Mutex::new(()),
        }
    }
}

impl StateTree {
    /// Creates an empty tree.
    pub fn empty(repository: &Repository) -> Self {
        Self::over(repository, Directory::default())
    }

    /// Opens the tree of a snapshot without loading anything. The caller must
    /// protect the snapshot from garbage collection.
    pub fn at(repository: &Repository, snapshot: &Snapshot) -> Self {
        Self::over(repository, Directory::stored(snapshot.tree, snapshot.times))
    }

    /// Opens the tree of the snapshot with this id. The tree and its clones
    /// protect the snapshot from garbage collection until they are committed or
    /// dropped.
    pub async fn open(repository: &Repository, id: SnapshotId) -> Result<Self> {
        let (guard, snapshot) = repository.hold(id).await?;
        let tree = Self::at(repository, &snapshot);
        let root = tree.current().root;
        tree.publish(root, Some(Arc::new(guard)));
        Ok(tree)
    }

    /// Returns a copy that may refer to objects that trees over `repository` have
    /// put: its commits name their writers as well.
    pub fn with_writers_of(&self, repository: &Repository) -> Self {
        let copy = self.clone();
        copy.repository.add_writers(repository.writers_ahead());
        copy
    }

    fn over(repository: &Repository, root: Directory) -> Self {
        Self {
            repository: repository.with_own_writers(),
            root: RwLock::new(State {
                root: Arc::new(root),
                held: None,
                ahead: Vec::new(),
            }),
            writer: Mutex::new(()),
        }
    }

    fn current(&self) -> State {
        self.root.read().clone()
    }

    fn publish(&self, root: Arc<Directory>, held: Option<Arc<Guard>>) {
        let ahead = self.repository.writers_ahead();
        let state = State { root, held, ahead };
        *self.root.write() = state;
    }

    /// Returns the metadata of `path`; `None` if nothing exists there.
    pub async fn stat(&self, path: &TreePath) -> Result<Option<Stat>> {
        if path.is_root() {
            return Ok(Some(Stat {
                kind: EntryKind::Directory,
                mode: Mode::EXECUTABLE,
                size: 0,
                modified: None,
            }));
        }
        let found = self.current().lookup(&self.repository, path).await?;
        Ok(found.and_then(|slot| slot.stat()))
    }

    /// Returns the whole content of a file that fits into memory.
    pub async fn read(&self, path: &TreePath) -> Result<Bytes> {
        self.read_at(path, 0, usize::MAX).await
    }

    /// Returns up to `length` bytes of a file from `offset`; fewer at its end.
    pub async fn read_at(&self, path: &TreePath, offset: u64, length: usize) -> Result<Bytes> {
        let state = self.current();
        let leaf = state.file(&self.repository, path).await?;
        let Entry::File { content, .. } = &leaf.entry else {
            return Err(Error::NotAFile(path.clone()));
        };
        file::read_range(&self.with_pending(&leaf), content, offset, length).await
    }

    /// Returns the target of a symbolic link.
    pub async fn read_link(&self, path: &TreePath) -> Result<Bytes> {
        let state = self.current();
        match state.lookup(&self.repository, path).await? {
            Some(Slot::Leaf(leaf)) => match leaf.entry {
                Entry::Link(link) => {
                    let found = self.with_pending(&leaf).chunks(&[link.hash]).await?;
                    Ok(found.into_iter().next().unwrap_or_default())
                }
                _ => Err(Error::NotALink(path.clone())),
            },
            Some(_) => Err(Error::NotALink(path.clone())),
            None => Err(Error::NotFound(path.clone())),
        }
    }

    /// Returns entries of a directory after `after`, in the order of their
    /// names, at most `limit`.
    pub async fn list(
        &self,
        path: &TreePath,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Stat)>> {
        let state = self.current();
        let directory = match state.lookup(&self.repository, path).await? {
            Some(Slot::Directory { directory, .. }) => directory,
            Some(_) => return Err(Error::NotADirectory(path.clone())),
            None => return Err(Error::NotFound(path.clone())),
        };
        directory.list(&self.repository, after, limit).await
    }

    /// Returns the identity of the current tree: equal content gives an equal
    /// root. Writes nothing.
    pub async fn tree(&self) -> Result<Tree> {
        Ok(seal(&self.repository, &self.current().root).await?.tree)
    }

    /// Returns the changes from this tree to `other`, which must be of the same
    /// repository. Uncommitted changes count on both sides.
    pub async fn diff(&self, other: &StateTree) -> Result<Diff> {
        let states = [self.current(), other.current()];
        let before = seal(&self.repository, &states[0].root).await?;
        let after = seal(&self.repository, &states[1].root).await?;
        let objects = before.objects.into_iter().chain(after.objects);
        let objects = objects.map(|object| (object.key, object.data)).collect();
        let held = states.map(|state| (state.held, state.ahead));
        let repository = self
            .repository
            .overlay_while(Arc::new(objects), Guard::new(held));
        Ok(Diff::new(&repository, before.tree, after.tree))
    }

    fn with_pending(&self, leaf: &Leaf) -> Repository {
        match &leaf.pending {
            Some(pending) => self.repository.overlay(pending.clone()),
            None => self.repository.clone(),
        }
    }
}

impl State {
    async fn file(&self, repository: &Repository, path: &TreePath) -> Result<Leaf> {
        match self.lookup(repository, path).await? {
            Some(Slot::Leaf(leaf)) => Ok(leaf),
            Some(_) => Err(Error::NotAFile(path.clone())),
            None => Err(Error::NotFound(path.clone())),
        }
    }

    async fn lookup(&self, repository: &Repository, path: &TreePath) -> Result<Option<Slot>> {
        let mut slot = Slot::root(self.root.clone());
        for name in path.names() {
            let Slot::Directory { directory, .. } = &slot else {
                return Ok(None);
            };
            match directory.find(repository, &name).await? {
                Some(found) => slot = found,
                None => return Ok(None),
            }
        }
        Ok(Some(slot))
    }
}
