//! Imports a directory into a repository.
//!
//! Directories are read bottom up on several threads; each becomes a tree as
//! soon as its content is done, and its objects go to the store in batches.
//! Memory holds all names in the directories being read, one window of entries
//! for each of these directories, and one batch.

mod directory;
mod earlier;
mod ignoring;
mod leaf;
mod names;
mod sink;
mod tree_writer;
mod upper;
mod with_cache;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use elevo_core::{Name, TreePath};
use elevo_objects::{Entry, Hash, Mode, SnapshotId, TimeEntry, Tree};
use parking_lot::Mutex;
use rustix::fs::Stat;

use crate::blocking::Workers;
use crate::disk::{self, Device, RootDirectory};
use crate::error::{Error, Result, at_root};
use crate::guards::{Guard, Writer};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::stat_cache::{CachedStat, Fingerprint, NewStatCache, RecordRef, StatCache};
use crate::state::CommitInfo;
use crate::store::Object;
use sink::Sink;

pub use ignoring::{Ignore, Ignoring};
pub(crate) use sink::Nodes;
pub use upper::{OverlayXattrs, import_upper, scan_upper};
pub use with_cache::{import_with_cache, record_checkout, scan_with_cache};

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Number of threads that read and hash; at least 1.
    pub threads: usize,
    /// Names to leave out, at any depth.
    pub leave_out: Vec<Name>,
    /// Decides which other files are left out.
    pub ignoring: Option<Ignoring>,
}

/// A directory that has been read. Its objects are stored, or in `rest` until
/// the commit.
#[derive(Debug)]
pub struct Imported {
    /// Tree of the files.
    pub tree: Tree,
    /// Root of the time tree.
    pub times: Option<Hash>,
    /// Properties that could not be stored, each kind once.
    pub losses: Vec<Loss>,
    rest: Vec<Object>,
    /// Protects objects that were put or found during the import.
    writer: Writer,
}

/// A property of the directory that a snapshot does not store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Kind of the loss.
    pub kind: LossKind,
    /// Number of paths affected.
    pub count: u64,
    /// One of the paths.
    pub example: TreePath,
}

/// Kind of property that a snapshot does not store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossKind {
    /// A socket, left out.
    Socket,
    /// A named pipe, left out.
    Pipe,
    /// A device node, left out.
    Device,
    /// An entry that vanished or changed its kind while it was read, left out.
    Vanished,
    /// A file with several names, stored once for each.
    HardLink,
    /// Setuid, setgid or sticky bits, dropped.
    SpecialBits,
    /// Extended attributes, dropped.
    ExtendedAttributes,
    /// An owner other than that of the directory, dropped.
    Owner,
    /// An ignored file or directory, left out.
    Ignored,
}

/// Reads `directory` into the repository's store. Nothing refers to the stored
/// objects until [`Imported::commit`].
///
/// Blocks. A file that changes while it is read is stored as it is found.
pub fn import(
    repository: &Repository,
    directory: &Path,
    options: &ImportOptions,
    progress: &Progress,
) -> Result<Imported> {
    let job = Job::new(repository, directory, options, progress);
    job.into_store(|importer| importer.run(LastRead::default()))
}

/// Hashes `directory` without storing anything; only its directory nodes are
/// kept, in memory. Files with the size and modification time of those in
/// `known` are not read.
pub(crate) fn scan(
    repository: &Repository,
    directory: &Path,
    options: &ImportOptions,
    progress: &Progress,
    known: Option<TreeWithTimes>,
) -> Result<(Tree, Nodes)> {
    let job = Job::new(repository, directory, options, progress);
    let before = LastRead {
        read_as: known,
        ..LastRead::default()
    };
    let (read, nodes) = job.into_memory(|importer| importer.run(before))?;
    Ok((read.tree, nodes))
}

/// A directory to be read, with its options and caches.
struct Job<'a> {
    repository: &'a Repository,
    directory: &'a Path,
    options: &'a ImportOptions,
    progress: &'a Progress,
    cache: Option<&'a StatCache>,
    new_cache: Option<&'a NewStatCache>,
}

/// A tree and its time tree.
pub(crate) type TreeWithTimes = (Tree, Option<Hash>);

/// Result of an [`Importer`].
type ImportResult = Result<(ReadDirectory, Vec<Loss>)>;

impl<'a> Job<'a> {
    const fn new(
        repository: &'a Repository,
        directory: &'a Path,
        options: &'a ImportOptions,
        progress: &'a Progress,
    ) -> Self {
        Self {
            repository,
            directory,
            options,
            progress,
            cache: None,
            new_cache: None,
        }
    }

    /// Reads the directory into the store.
    fn into_store(self, read: impl FnOnce(Importer<'_>) -> ImportResult) -> Result<Imported> {
        let workers = Workers::start(self.options.threads).map_err(at_root("start threads for"))?;
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let writer = workers.wait(store.writing(tenant))?;
        let sink = Sink::store(self.repository, &workers, &writer);
        let (read, losses) = read(Importer::open(&self, &workers, &sink)?)?;
        Ok(Imported {
            tree: read.tree,
            times: read.times,
            losses,
            rest: sink.into_rest(),
            writer,
        })
    }

    /// Reads the directory without storing anything; its directory nodes stay
    /// in memory.
    fn into_memory(
        self,
        read: impl FnOnce(Importer<'_>) -> ImportResult,
    ) -> Result<(ReadDirectory, Nodes)> {
        let workers = Workers::start(self.options.threads).map_err(at_root("start threads for"))?;
        let sink = Sink::memory();
        let (read, _) = read(Importer::open(&self, &workers, &sink)?)?;
        Ok((read, sink.into_nodes()))
    }

    /// Like [`into_memory`](Self::into_memory), with a repository in which the
    /// directories can be read.
    fn into_view(
        self,
        read: impl FnOnce(Importer<'_>) -> ImportResult,
    ) -> Result<(Tree, Repository)> {
        let repository = self.repository;
        let (read, nodes) = self.into_memory(read)?;
        Ok((read.tree, repository.overlay(Arc::new(nodes))))
    }
}

impl Imported {
    /// Returns a repository in which the import can be read as if it were
    /// stored.
    pub fn view(&self, repository: &Repository) -> Repository {
        let objects = self.rest.iter();
        let objects = objects.map(|object| (object.key, object.data.clone()));
        repository.overlay(Arc::new(objects.collect()))
    }

    /// Commits the imported tree as a snapshot; durable when this returns.
    pub async fn commit(self, repository: &Repository, info: CommitInfo) -> Result<SnapshotId> {
        let after = vec![self.writer.id()];
        let (id, commit) = info.into_commit(self.tree, self.times, self.rest, after)?;
        repository
            .store()
            .commit(repository.tenant(), commit)
            .await?;
        Ok(id)
    }
}

/// Number of entries of a directory that are read together.
const WINDOW: usize = 1024;
/// Number of files that one thread reads in a row.
const SLICE: usize = 32;

struct Importer<'a> {
    repository: &'a Repository,
    root: RootDirectory,
    owner: u32,
    /// The device of the directory, if directories on it need not be listed while
    /// their times are unchanged.
    listed_once: Option<Device>,
    options: &'a ImportOptions,
    progress: &'a Progress,
    cache: Option<&'a StatCache>,
    new_cache: Option<&'a NewStatCache>,
    workers: &'a Workers,
    sink: &'a Sink<'a>,
    losses: Mutex<BTreeMap<LossKind, Loss>>,
}

/// State of a directory at the last read, as far as it is known.
#[derive(Clone, Copy, Default)]
struct LastRead {
    /// The tree that the directory was read as.
    read_as: Option<TreeWithTimes>,
    /// Metadata of the directory itself.
    seen: Option<CachedStat>,
    /// The record of its entries in the stat cache.
    record: Option<RecordRef>,
}

/// A directory that has been read.
struct ReadDirectory {
    /// Metadata from before the read.
    stat: Stat,
    /// Whether it has extended attributes, which a snapshot does not store.
    has_attributes: bool,
    /// Whether the new stat cache has all of its names.
    is_whole: bool,
    tree: Tree,
    times: Option<Hash>,
    /// The record of its entries in the new stat cache.
    record: Option<RecordRef>,
    /// Whether everything in it is unchanged since the last read.
    is_same: bool,
}

/// An entry that has been read.
struct ReadEntry {
    entry: Entry,
    time: TimeEntry,
    /// Metadata from before the read.
    seen: Option<CachedStat>,
}

/// State of some names in an earlier scan or snapshot.
type Known = HashMap<Name, KnownEntry>;

struct KnownEntry {
    entry: Entry,
    time: Option<TimeEntry>,
    seen: Option<CachedStat>,
}

impl KnownEntry {
    fn directory(&self) -> LastRead {
        let times = self.time.and_then(|time| time.children);
        LastRead {
            read_as: match self.entry {
                Entry::Directory { tree, .. } => Some((tree, times)),
                _ => None,
            },
            seen: self.seen,
            record: self.seen.and_then(|seen| seen.below),
        }
    }
}

impl ReadEntry {
    fn directory(read: &ReadDirectory) -> Self {
        let mut fingerprint = Fingerprint::of(&read.stat);
        if !read.is_whole {
            // The next scan has to list the names of this directory again.
            fingerprint = fingerprint.unsure();
        }
        Self {
            entry: Entry::Directory {
                mode: Mode::from_bits(disk::mode(&read.stat)),
                tree: read.tree,
            },
            time: TimeEntry {
                modified: disk::modified(&read.stat),
                children: read.times,
            },
            seen: Some(CachedStat {
                fingerprint,
                has_attributes: read.has_attributes,
                below: read.record,
            }),
        }
    }
}

impl<'a> Importer<'a> {
    fn open(job: &Job<'a>, workers: &'a Workers, sink: &'a Sink<'a>) -> Result<Self> {
        let root = RootDirectory::open(job.directory).map_err(at_root("open"))?;
        let look = |fd: OwnedFd| Ok((rustix::fs::fstat(&fd)?, disk::tells_changed_names(fd)));
        let opened = root.open_directory(&TreePath::root()).and_then(look);
        let (stat, tells_names) = opened.map_err(at_root("open"))?;
        Ok(Self {
            repository: job.repository,
            root,
            owner: stat.st_uid,
            listed_once: tells_names.then_some(stat.st_dev),
            options: job.options,
            progress: job.progress,
            cache: job.cache,
            new_cache: job.new_cache,
            workers,
            sink,
            losses: Mutex::default(),
        })
    }

    fn run(self, before: LastRead) -> ImportResult {
        let workers = self.workers;
        let read = workers.run(|| self.directory(&TreePath::root(), before))?;
        self.finish(read)
    }

    /// Reads the directory with the help of its cache.
    fn run_again(mut self) -> ImportResult {
        let (_held, before) = self.known()?.unzip();
        self.run(before.unwrap_or_default())
    }

    fn finish(self, read: ReadDirectory) -> ImportResult {
        if let (Some(new), Some(record)) = (self.new_cache, read.record) {
            new.set_root(record);
        }
        Ok((read, self.into_losses()))
    }

    /// Returns the state at the last read, and a guard on its snapshot. If the
    /// snapshot was collected, the cache is not used.
    fn known(&mut self) -> Result<Option<(Guard, LastRead)>> {
        let Some(cache) = self.cache else {
            return Ok(None);
        };
        let Some(id) = cache.snapshot() else {
            return Ok(None);
        };
        match self.workers.wait(self.repository.hold(id)) {
            Ok((held, snapshot)) => {
                let before = LastRead {
                    read_as: Some((snapshot.tree, snapshot.times)),
                    seen: None,
                    record: cache.root(),
                };
                Ok(Some((held, before)))
            }
            Err(Error::NoSuchSnapshot(_)) => {
                self.cache = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn into_losses(self) -> Vec<Loss> {
        self.losses.into_inner().into_values().collect()
    }

    fn lose(&self, kind: LossKind, directory: &TreePath, name: Option<&Name>) {
        let example = name.map_or(Ok(directory.clone()), |name| directory.join(name));
        let mut losses = self.losses.lock();
        let Ok(example) = example else { return };
        losses
            .entry(kind)
            .or_insert(Loss {
                kind,
                count: 0,
                example,
            })
            .count += 1;
    }
}
