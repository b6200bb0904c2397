//! A directory into a repository. (Signatures settled; being filled in.)
use std::path::Path;

use elevo_core::{Name, TreePath};
use elevo_objects::{Hash, SnapshotId, Tree};

use crate::error::Result;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::state::CommitInfo;
use crate::store::Object;

/// How a directory is imported.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Threads that read and hash; at least 1.
    pub threads: usize,
    /// Names at the root of the directory that are left out.
    pub leave_out: Vec<Name>,
}

/// A directory that has been read, and whose objects are stored or on their
/// way into the store.
#[derive(Debug)]
pub struct Imported {
    /// Its files.
    pub tree: Tree,
    /// Their modification times.
    pub times: Option<Hash>,
    /// What could not be kept, each kind once.
    pub losses: Vec<Loss>,
    rest: Vec<Object>,
}

/// Something about the directory that a snapshot does not keep.
#[derive(Clone, Debug)]
pub struct Loss {
    /// What.
    pub kind: LossKind,
    /// How often.
    pub count: u64,
    /// One of the paths.
    pub example: TreePath,
}

/// What a snapshot does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossKind {
    /// A socket, left out.
    Socket,
    /// A named pipe, left out.
    Pipe,
    /// A device node, left out.
    Device,
    /// A file that vanished while it was read, left out.
    Vanished,
    /// A file with several names, kept once for each.
    HardLink,
    /// Setuid, setgid or sticky bits, dropped.
    SpecialBits,
    /// Extended attributes, dropped.
    ExtendedAttributes,
    /// An owner other than the one of the directory, dropped.
    Owner,
}

/// Reads `directory` into the repository's store.
pub fn import(
    _repository: &Repository,
    _directory: &Path,
    _options: &ImportOptions,
    _progress: &Progress,
) -> Result<Imported> {
    Ok(Imported { tree: Tree::EMPTY, times: None, losses: Vec::new(), rest: Vec::new() })
}

impl Imported {
    /// Makes the imported tree a snapshot; durable when this returns.
    pub async fn commit(self, repository: &Repository, info: CommitInfo) -> Result<SnapshotId> {
        let (id, commit) = info.into_commit(self.tree, self.times, self.rest)?;
        repository.store().commit(repository.tenant(), commit).await?;
        Ok(id)
    }
}
