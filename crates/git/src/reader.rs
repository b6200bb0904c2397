//! Converts git trees into trees of the engine. For each tree, only the
//! differences from the previous tree are read.

use std::collections::BTreeMap;

use bytes::Bytes;
use elevo_core::{Name, RESERVED_NAME, Timestamp, TreePath};
use elevo_engine::{Attributes, CommitInfo, Repository, StateTree};
use elevo_objects::{Mode, Tree};
use futures::executor::block_on;
use gix::ObjectId;
use gix::object::tree::EntryKind;

use crate::error::{Error, Result, object};
use crate::source::{Commit, Source};

/// Maximum size of a file. Git returns files only as a whole.
const MAX_BLOB_BYTES: u64 = 1 << 30;

/// New content beyond this size is moved to the store.
const BATCH_BYTES: usize = 32 << 20;

/// New content beyond this number of entries is moved to the store.
const BATCH_ENTRIES: usize = 20_000;

/// Converts commits into trees, one after the other.
///
/// The calls block. The content goes into the store without a ref that would
/// keep it from garbage collection.
#[derive(Debug)]
pub struct Reader<'a> {
    source: &'a Source,
    tree: StateTree,
    /// The git tree that `tree` was converted from.
    at: Option<ObjectId>,
    submodules: u64,
    bytes: usize,
    entries: usize,
}

/// An entry of a git tree.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Item {
    kind: EntryKind,
    id: ObjectId,
}

/// A directory that differs from the previous commit.
struct Pair {
    path: TreePath,
    before: Option<ObjectId>,
    after: ObjectId,
}

impl<'a> Reader<'a> {
    /// Reads from `source` into the store of `repository`.
    pub fn new(source: &'a Source, repository: &Repository) -> Self {
        Self {
            source,
            tree: StateTree::empty(repository),
            at: None,
            submodules: 0,
            bytes: 0,
            entries: 0,
        }
    }

    /// Stores the content of later commits with the writer of `repository`, which
    /// has the same store. The trees that were read before stay the business of
    /// the earlier writer.
    pub fn continue_with(&mut self, repository: &Repository) -> Result<()> {
        let (_, commit) = block_on(self.tree.staged(unnamed()))?;
        if let Some(snapshot) = commit.snapshots.first() {
            self.tree = StateTree::at(repository, snapshot);
        }
        Ok(())
    }

    /// Returns the files of a commit. Reads only the differences to the commit
    /// that was read before. After an error the reader cannot be used any more.
    pub fn read(&mut self, commit: &Commit) -> Result<Tree> {
        if self.at != Some(commit.tree) {
            let mut pairs = vec![Pair {
                path: TreePath::root(),
                before: self.at,
                after: commit.tree,
            }];
            while let Some(pair) = pairs.pop() {
                self.directory(pair, &mut pairs)?;
            }
            self.store()?;
            self.at = Some(commit.tree);
        }
        Ok(block_on(self.tree.tree())?)
    }

    /// The number of submodules that were left out; a submodule counts again
    /// each time it changes.
    pub fn submodules(&self) -> u64 {
        self.submodules
    }

    fn directory(&mut self, pair: Pair, below: &mut Vec<Pair>) -> Result<()> {
        let before = match pair.before {
            Some(id) => self.items(id)?,
            None => BTreeMap::new(),
        };
        let after = self.items(pair.after)?;
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            self.removed(&join(&pair.path, name)?)?;
        }
        for (name, item) in after {
            let earlier = before.get(&name).copied();
            if earlier == Some(item) {
                continue;
            }
            let path = join(&pair.path, &name)?;
            below.extend(self.changed(path, earlier, item)?);
        }
        Ok(())
    }

    /// Returns the entries of a git tree, without names that a project never
    /// contains.
    fn items(&self, id: ObjectId) -> Result<BTreeMap<Vec<u8>, Item>> {
        let tree = self.source.repository.find_tree(id).map_err(object)?;
        let tree = tree.decode().map_err(object)?;
        let named = tree.entries.iter().map(|entry| {
            let (kind, id) = (entry.mode.kind(), entry.oid.to_owned());
            (entry.filename.to_vec(), Item { kind, id })
        });
        let never = |name: &[u8]| name == b".git" || name == RESERVED_NAME;
        Ok(named.filter(|(name, _)| !never(name)).collect())
    }

    /// Handles a new or changed entry. Returns a directory whose entries are
    /// still to be compared.
    fn changed(
        &mut self,
        path: TreePath,
        before: Option<Item>,
        item: Item,
    ) -> Result<Option<Pair>> {
        let was = before.map(|before| before.kind);
        let is_tree = |kind| kind == EntryKind::Tree;
        if was.is_some_and(|was| is_tree(was) != is_tree(item.kind)) {
            self.removed(&path)?;
        }
        let same_content = before.is_some_and(|before| before.id == item.id);
        match item.kind {
            EntryKind::Tree => {
                let before = before.filter(|before| before.kind == EntryKind::Tree);
                return Ok(Some(Pair {
                    path,
                    before: before.map(|before| before.id),
                    after: item.id,
                }));
            }
            EntryKind::Commit => {
                self.submodules += 1;
                self.removed(&path)?;
            }
            EntryKind::Link => {
                let target = self.blob(&path, item.id)?;
                block_on(self.tree.symlink(&path, target))?;
            }
            kind if same_content && was.is_some_and(is_file) => {
                block_on(self.tree.set_mode(&path, mode(kind)))?;
            }
            kind => {
                let content = self.blob(&path, item.id)?;
                let attributes = Attributes {
                    mode: Some(mode(kind)),
                    modified: None,
                };
                block_on(self.tree.write(&path, content, attributes))?;
            }
        }
        self.grown()?;
        Ok(None)
    }

    fn blob(&mut self, path: &TreePath, id: ObjectId) -> Result<Bytes> {
        let header = self.source.repository.find_header(id).map_err(object)?;
        if header.size() > MAX_BLOB_BYTES {
            return Err(Error::TooLarge {
                path: path.to_string(),
                size: header.size(),
            });
        }
        let mut blob = self.source.repository.find_blob(id).map_err(object)?;
        let content = blob.take_data();
        self.bytes += content.len();
        Ok(content.into())
    }

    /// Removes a path. A submodule does not exist in the tree, which is not an
    /// error.
    fn removed(&self, path: &TreePath) -> Result<()> {
        match block_on(self.tree.remove(path)) {
            Ok(()) | Err(elevo_engine::Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn grown(&mut self) -> Result<()> {
        self.entries += 1;
        if self.bytes > BATCH_BYTES || self.entries > BATCH_ENTRIES {
            self.store()?;
        }
        Ok(())
    }

    /// Moves new content into the store. Afterwards `tree` refers to the stored
    /// content.
    fn store(&mut self) -> Result<()> {
        block_on(self.tree.settle())?;
        (self.bytes, self.entries) = (0, 0);
        Ok(())
    }
}

/// The time of a temporary snapshot.
const NEVER: Timestamp = match Timestamp::new(0, 0) {
    Some(time) => time,
    None => unreachable!(),
};

/// The metadata of a temporary snapshot.
fn unnamed() -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: String::new(),
        message: String::new(),
        created: NEVER,
        labels: BTreeMap::new(),
        reference: None,
    }
}

const fn is_file(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::Blob | EntryKind::BlobExecutable)
}

const fn mode(kind: EntryKind) -> Mode {
    match kind {
        EntryKind::BlobExecutable => Mode::EXECUTABLE,
        _ => Mode::FILE,
    }
}

fn join(directory: &TreePath, name: &[u8]) -> Result<TreePath> {
    let failed = |source| Error::Name {
        name: String::from_utf8_lossy(name).into_owned(),
        source,
    };
    let name = Name::copy_from(name).map_err(|error| failed(error.into()))?;
    directory.join(&name).map_err(failed)
}
