//! Hashes and stores an archive, a part at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use elevo_core::{RESERVED_NAME, TreePath};
use elevo_engine::{
    ContentBuilder, Error as EngineError, Loss, LossKind, Object, Progress, Repository, StateTree,
    Workers, content_of,
};
use elevo_objects::{Content, Entry as TreeEntry, Kind, Link, Mode};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::reader::{Entry, EntryKind};

/// Maximum size of a batch.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_PIECES: usize = 4096;
/// Maximum bytes that one call stores.
const PART_BYTES: usize = 256 << 10;

/// Maximum estimated memory of the tree.
const TREE_BYTES: usize = 64 << 20;
/// Estimated memory of a name in the tree.
const NAME_BYTES: usize = 256;
/// Estimated memory of a directory in the tree.
const DIRECTORY_BYTES: usize = 2048;

/// A part of an archive.
#[derive(Default)]
pub(super) struct Batch {
    pieces: Vec<Piece>,
    bytes: usize,
}

/// A piece of an archive.
pub(super) enum Piece {
    /// An entry with its content.
    Whole(Entry, Bytes),
    /// A chunk of a large file.
    Chunk(Bytes),
    /// A large file, after all its chunks.
    Large(Entry),
}

/// A hashed piece.
enum Hashed {
    Whole(Entry, Content),
    Chunk(Object),
    Large(Entry),
}

impl Batch {
    pub(super) fn push(&mut self, piece: Piece) {
        self.bytes += match &piece {
            Piece::Whole(_, data) | Piece::Chunk(data) => data.len(),
            Piece::Large(_) => 0,
        };
        self.pieces.push(piece);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.pieces.len() >= BATCH_PIECES
    }
}

/// Puts batches into a tree.
pub(super) struct Builder<'a> {
    workers: &'a Workers,
    /// The tree below the layer. Hard links of the layer may refer to files in
    /// this tree.
    base: Option<&'a StateTree>,
    progress: &'a Progress,
    /// Also protects the stored objects from garbage collection.
    state: Arc<StateTree>,
    large: ContentBuilder,
    losses: BTreeMap<LossKind, Loss>,
    /// Number of entries with a reserved name in their path.
    left_out: u64,
    /// Estimated memory of the tree.
    tree_bytes: usize,
    last: TreePath,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        repository: &Repository,
        workers: &'a Workers,
        base: Option<&'a StateTree>,
        progress: &'a Progress,
    ) -> Self {
        Self {
            workers,
            base,
            progress,
            state: Arc::new(StateTree::empty(repository)),
            large: ContentBuilder::default(),
            losses: BTreeMap::new(),
            left_out: 0,
            tree_bytes: 0,
            last: TreePath::root(),
        }
    }

    pub(super) fn finish(self) -> (StateTree, Vec<Loss>, u64) {
        let state = Arc::unwrap_or_clone(self.state);
        let losses = self.losses.into_values().collect();
        (state, losses, self.left_out)
    }

    pub(super) fn add(&mut self, batch: Batch) -> Result<()> {
        let workers = self.workers;
        let pieces = batch.pieces;
        let hashed: Vec<_> = workers.run(|| pieces.into_par_iter().map(hash).collect());
        let mut objects = Vec::new();
        let mut entries = Vec::with_capacity(hashed.len());
        for (hashed, new) in hashed {
            objects.extend(new);
            match hashed {
                Hashed::Chunk(chunk) => self.large.push_object(chunk),
                Hashed::Large(entry) => {
                    let (content, new) = std::mem::take(&mut self.large).finish();
                    objects.extend(new);
                    entries.push((entry, content));
                }
                Hashed::Whole(entry, content) => entries.push((entry, content)),
            }
        }
        objects.extend(self.large.take_objects());
        let state = Arc::clone(&self.state);
        let (stored, put) = workers.run(|| {
            rayon::join(
                || {
                    let parts = in_parts(objects).into_par_iter();
                    parts.try_for_each(|part| workers.wait(state.put_objects(part)))
                },
                || {
                    let mut entries = entries.into_iter();
                    entries.try_for_each(|(entry, content)| self.put(entry, content))
                },
            )
        });
        stored?;
        put
    }

    /// Counts the memory of an entry: all directories on its path that the
    /// previous entry does not share may be new.
    fn weigh(&mut self, path: &TreePath) {
        let mut last = self.last.names();
        let shared = path
            .names()
            .take_while(|name| last.next().as_ref() == Some(name));
        let new = path.names().count() - shared.count();
        self.tree_bytes += NAME_BYTES + new.saturating_sub(1) * DIRECTORY_BYTES;
        drop(last);
        self.last = path.clone();
    }

    /// Puts an entry into the tree.
    fn put(&mut self, entry: Entry, content: Content) -> Result<()> {
        self.progress.add(1, content.size());
        if entry.path.names().any(|name| *name == *RESERVED_NAME) {
            self.left_out += 1;
            return Ok(());
        }
        self.weigh(&entry.path);
        if self.tree_bytes > TREE_BYTES {
            self.workers.wait(self.state.settle())?;
            self.tree_bytes = 0;
        }
        if entry.mode & 0o7000 != 0 {
            self.lose(LossKind::SpecialBits, &entry.path);
        }
        if entry.has_attributes {
            self.lose(LossKind::ExtendedAttributes, &entry.path);
        }
        let mode = Mode::from_bits(entry.mode & 0o777);
        let leaf = match &entry.kind {
            EntryKind::Directory if entry.path.is_root() => return Ok(()),
            EntryKind::Directory => {
                self.tree_bytes += DIRECTORY_BYTES;
                let modified = Some(entry.modified);
                let made = self.state.put_directory(&entry.path, mode, modified);
                return self
                    .workers
                    .wait(made)
                    .map_err(|error| in_the_way(&entry, error));
            }
            EntryKind::File => TreeEntry::File { mode, content },
            EntryKind::Symlink(_) => match content {
                Content::Chunk { hash, size } => TreeEntry::Link(Link { hash, size }),
                _ => return Err(Error::Malformed("a link without a target")),
            },
            EntryKind::HardLink(target) => {
                self.lose(LossKind::HardLink, &entry.path);
                self.linked(&entry, target)?
            }
            EntryKind::Pipe => {
                self.lose(LossKind::Pipe, &entry.path);
                return Ok(());
            }
            EntryKind::Device => {
                self.lose(LossKind::Device, &entry.path);
                return Ok(());
            }
        };
        let put = self.state.put_leaf(&entry.path, leaf, Some(entry.modified));
        self.workers
            .wait(put)
            .map_err(|error| in_the_way(&entry, error))
    }

    /// The file that a hard link refers to.
    fn linked(&self, entry: &Entry, target: &TreePath) -> Result<TreeEntry> {
        let mut found = self.workers.wait(self.state.entry(target))?;
        if let (None, Some(base)) = (&found, self.base) {
            found = self.workers.wait(base.entry(target))?;
        }
        match found {
            Some(file @ TreeEntry::File { .. }) => Ok(file),
            Some(link @ TreeEntry::Link(_)) => Ok(link),
            _ => {
                let why = "it links to a file that is not before it in the archive";
                Err(Error::refused(entry.path.as_bytes(), why))
            }
        }
    }

    fn lose(&mut self, kind: LossKind, path: &TreePath) {
        let loss = self.losses.entry(kind).or_insert_with(|| Loss {
            kind,
            count: 0,
            example: path.clone(),
        });
        loss.count += 1;
    }
}

/// Splits the objects for parallel calls, because the store compresses them.
fn in_parts(objects: Vec<Object>) -> Vec<Vec<Object>> {
    let mut parts: Vec<Vec<Object>> = Vec::new();
    let mut bytes = 0;
    for object in objects {
        bytes += object.data.len();
        match parts.last_mut() {
            Some(part) if bytes <= PART_BYTES => part.push(object),
            _ => {
                bytes = object.data.len();
                parts.push(vec![object]);
            }
        }
    }
    parts
}

/// Hashes a piece, and returns it with the objects of its content.
fn hash(piece: Piece) -> (Hashed, Vec<Object>) {
    match piece {
        Piece::Whole(entry, data) => {
            let data = match &entry.kind {
                EntryKind::Symlink(target) => target.clone(),
                _ => data,
            };
            let (content, objects) = content_of(data);
            (Hashed::Whole(entry, content), objects)
        }
        Piece::Chunk(data) => {
            let key = Kind::Chunk.key(&data);
            (Hashed::Chunk(Object { key, data }), Vec::new())
        }
        Piece::Large(entry) => (Hashed::Large(entry), Vec::new()),
    }
}

fn in_the_way(entry: &Entry, error: EngineError) -> Error {
    let name = entry.path.as_bytes();
    match error {
        EngineError::NotADirectory(_) => {
            Error::refused(name, "a parent of its path is not a directory")
        }
        EngineError::NotAFile(_) => Error::refused(name, "a directory already exists at its path"),
        EngineError::Root => Error::refused(name, "it has no name"),
        error => error.into(),
    }
}
