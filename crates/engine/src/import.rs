//! A directory into a repository.
//!
//! Directories are read bottom up on several threads; each becomes a tree as
//! soon as what is in it is done, and its objects leave for the store in
//! batches. What is held at any time: the names of the directories being read
//! (not their entries), one window of entries of each, and one batch.

mod again;
mod earlier;
mod names;
mod sink;
mod upper;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use elevo_core::{Name, Timestamp, TreePath};
use elevo_objects::{
    Chunker, Content, DirItem, Entry, Hash, Kind, Link, MAX_LINK_BYTES, MIN_CHUNK, Mode,
    SnapshotId, TimeEntry, TimeItem, Tree, TreeBuilder,
};
use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, Mode as Bits, OFlags, Stat};
use rustix::io::Errno;

use crate::blocking::Workers;
use crate::disk::{self, Root};
use crate::error::{Error, Result, at_root};
use crate::file::ContentBuilder;
use crate::guards::Guard;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::stat_cache::{Fingerprint, NewStatCache, StatCache};
use crate::state::CommitInfo;
use crate::store::Object;
use earlier::Earlier;
use names::Names;
use sink::Sink;

pub use again::{import_again, look_again, note_checkout};
pub(crate) use sink::Nodes;
pub use upper::{import_upper, look_upper};

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
    /// Keeps what was put or found on the way.
    _writing: Guard,
}

/// Something about the directory that a snapshot does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Something that vanished or changed its kind while it was read, left out.
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

/// Reads `directory` into the repository's store. Nothing refers to what was
/// stored until [`Imported::commit`].
///
/// Blocks. A file that changes while it is read is taken as it is found.
pub fn import(
    repository: &Repository,
    directory: &Path,
    options: &ImportOptions,
    progress: &Progress,
) -> Result<Imported> {
    let job = Job::new(repository, directory, options, progress);
    job.into_store(|importer| importer.run(None))
}

/// Hashes `directory` without storing anything but its directory nodes, and
/// these in memory. Files whose size and modification time are those in
/// `known` are not read.
pub(crate) fn scan(
    repository: &Repository,
    directory: &Path,
    options: &ImportOptions,
    progress: &Progress,
    known: Option<(Tree, Option<Hash>)>,
) -> Result<(Tree, Nodes)> {
    let job = Job::new(repository, directory, options, progress);
    let (read, nodes) = job.into_memory(|importer| importer.run(known))?;
    Ok((read.tree, nodes))
}

/// A directory to be read, and with what.
struct Job<'a> {
    repository: &'a Repository,
    directory: &'a Path,
    options: &'a ImportOptions,
    progress: &'a Progress,
    cache: Option<&'a StatCache>,
    new_cache: Option<&'a NewStatCache>,
}

/// A tree, and the times of what is in it.
type ReadAs = (Tree, Option<Hash>);

/// What an [`Importer`] found.
type Found = Result<(ReadDirectory, Vec<Loss>)>;

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

    /// Reads it into the store.
    fn into_store(self, read: impl FnOnce(Importer<'_>) -> Found) -> Result<Imported> {
        let workers = Workers::start(self.options.threads).map_err(at_root("start threads for"))?;
        let sink = Sink::store(self.repository, &workers);
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let writing = workers.wait(store.writing(tenant))?;
        let (read, losses) = read(Importer::open(&self, &workers, &sink)?)?;
        Ok(Imported {
            tree: read.tree,
            times: read.times,
            losses,
            rest: sink.into_rest(),
            _writing: writing,
        })
    }

    /// Reads it without storing anything; its directory nodes stay in memory.
    fn into_memory(
        self,
        read: impl FnOnce(Importer<'_>) -> Found,
    ) -> Result<(ReadDirectory, Nodes)> {
        let workers = Workers::start(self.options.threads).map_err(at_root("start threads for"))?;
        let sink = Sink::memory();
        let (read, _) = read(Importer::open(&self, &workers, &sink)?)?;
        Ok((read, sink.into_nodes()))
    }

    /// The same for somebody who goes on to read its directories.
    fn into_view(self, read: impl FnOnce(Importer<'_>) -> Found) -> Result<(Tree, Repository)> {
        let repository = self.repository;
        let (read, nodes) = self.into_memory(read)?;
        Ok((read.tree, repository.overlay(Arc::new(nodes))))
    }
}

impl Imported {
    /// A repository in which all of it can be read, as if it were stored.
    pub fn view(&self, repository: &Repository) -> Repository {
        let objects = self.rest.iter();
        let objects = objects.map(|object| (object.key, object.data.clone()));
        repository.overlay(Arc::new(objects.collect()))
    }

    /// Makes the imported tree a snapshot; durable when this returns.
    pub async fn commit(self, repository: &Repository, info: CommitInfo) -> Result<SnapshotId> {
        let (id, commit) = info.into_commit(self.tree, self.times, self.rest)?;
        repository
            .store()
            .commit(repository.tenant(), commit)
            .await?;
        Ok(id)
    }
}

/// Entries of a directory that are worked on together.
const WINDOW: usize = 1024;
/// Files that one thread reads in a row.
const SLICE: usize = 32;
/// Chunks of a large file that are held before they go to the sink.
const CHUNKS_HELD: usize = 16;

struct Importer<'a> {
    repository: &'a Repository,
    root: Root,
    owner: u32,
    options: &'a ImportOptions,
    progress: &'a Progress,
    cache: Option<&'a StatCache>,
    new_cache: Option<&'a NewStatCache>,
    workers: &'a Workers,
    sink: &'a Sink<'a>,
    losses: Mutex<BTreeMap<LossKind, Loss>>,
}

/// A directory that has been read.
struct ReadDirectory {
    mode: Mode,
    modified: Option<Timestamp>,
    tree: Tree,
    times: Option<Hash>,
}

/// An entry that has been read.
struct ReadEntry {
    entry: Entry,
    time: TimeEntry,
    /// What a file was like before it was read.
    fingerprint: Option<Fingerprint>,
}

/// What an earlier scan or snapshot says of some names.
type Known = HashMap<Name, KnownEntry>;

struct KnownEntry {
    entry: Entry,
    time: Option<TimeEntry>,
    seen: Option<Fingerprint>,
}

impl KnownEntry {
    fn directory(&self) -> Option<(Tree, Option<Hash>)> {
        match self.entry {
            Entry::Directory { tree, .. } => Some((tree, self.time.and_then(|time| time.children))),
            _ => None,
        }
    }
}

impl ReadEntry {
    fn directory(read: &ReadDirectory) -> Self {
        Self {
            entry: Entry::Directory {
                mode: read.mode,
                tree: read.tree,
            },
            time: TimeEntry {
                modified: read.modified,
                children: read.times,
            },
            fingerprint: None,
        }
    }
}

impl<'a> Importer<'a> {
    fn open(job: &Job<'a>, workers: &'a Workers, sink: &'a Sink<'a>) -> Result<Self> {
        let root = Root::open(job.directory).map_err(at_root("open"))?;
        let owner = root
            .open_directory(&TreePath::root())
            .and_then(|fd| Ok(rustix::fs::fstat(fd)?.st_uid))
            .map_err(at_root("open"))?;
        Ok(Self {
            repository: job.repository,
            root,
            owner,
            options: job.options,
            progress: job.progress,
            cache: job.cache,
            new_cache: job.new_cache,
            workers,
            sink,
            losses: Mutex::default(),
        })
    }

    fn run(self, known: Option<(Tree, Option<Hash>)>) -> Found {
        let workers = self.workers;
        let read = workers.run(|| self.directory(&TreePath::root(), known))?;
        Ok((read, self.into_losses()))
    }

    /// Reads the directory as its cache knows it.
    fn run_again(mut self) -> Found {
        let (_held, known) = self.known()?.unzip();
        self.run(known)
    }

    /// What the directory was read as, and what keeps it from being collected;
    /// if that is gone already, the cache is of no use.
    fn known(&mut self) -> Result<Option<(Guard, ReadAs)>> {
        let Some(id) = self.cache.and_then(StatCache::snapshot) else {
            return Ok(None);
        };
        match self.workers.wait(self.repository.hold(id)) {
            Ok(held) => {
                let snapshot = self.workers.wait(self.repository.snapshot(id))?;
                Ok(Some((held, (snapshot.tree, snapshot.times))))
            }
            Err(Error::NoSuchSnapshot(_)) => {
                self.cache = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn into_losses(self) -> Vec<Loss> {
        let losses = self.losses.into_inner();
        let losses = losses.unwrap_or_else(PoisonError::into_inner);
        losses.into_values().collect()
    }

    fn lose(&self, kind: LossKind, directory: &TreePath, name: Option<&Name>) {
        let example = name.map_or(Ok(directory.clone()), |name| directory.join(name));
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn directory(
        &self,
        path: &TreePath,
        known: Option<(Tree, Option<Hash>)>,
    ) -> Result<ReadDirectory> {
        let fail = |action| {
            move |source| Error::Io {
                action,
                path: path.clone(),
                source,
            }
        };
        let fd = self.root.open_directory(path).map_err(fail("open"))?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| fail("look at")(error.into()))?;
        self.note_attributes(&stat, fd.as_fd(), path, None);
        let mut names = Names::read(fd.as_fd()).map_err(fail("list"))?;
        if path.is_root() {
            names.leave_out(&self.options.leave_out);
        }
        let seen = self.cache.map(|cache| cache.files(path));
        let earlier = Earlier::open(self.repository, known, seen.unwrap_or_default());
        let mut earlier = self.workers.wait(earlier)?;
        let mut files = self.new_cache.map(NewStatCache::files);
        let mut entries = TreeBuilder::<DirItem>::new();
        let mut times = TreeBuilder::<TimeItem>::new();
        let mut fd = Some(fd);
        for window in names.windows(WINDOW) {
            let window = window.map_err(fail("list"))?;
            let known = self.workers.wait(earlier.known(&window))?;
            for (name, read) in self.window(path, &mut fd, window, &known)? {
                let ReadEntry {
                    entry,
                    time,
                    fingerprint,
                } = read;
                if let (Some(files), Some(fingerprint)) = (&mut files, &fingerprint) {
                    files.push(&name, fingerprint);
                }
                if time.modified.is_some() || time.children.is_some() {
                    times.push(TimeItem {
                        name: name.clone(),
                        entry: time,
                    });
                }
                entries.push(DirItem { name, entry });
            }
            if names.len() > WINDOW {
                self.sink.add_nodes(entries.take_finished())?;
                self.sink.add_nodes(times.take_finished())?;
            }
        }
        let root = entries.finish();
        let times_root = times.finish().map(|root| root.hash);
        // What was stored before need not be looked for in the store.
        let (known_root, known_times) = match (self.cache, known) {
            (Some(_), Some((tree, times))) => (tree.root, times),
            _ => (None, None),
        };
        if known_root.is_none() || root.as_ref().map(|root| root.hash) != known_root {
            self.sink.add_nodes(entries.take_finished())?;
        }
        if known_times.is_none() || times_root != known_times {
            self.sink.add_nodes(times.take_finished())?;
        }
        if let (Some(new), Some(files)) = (self.new_cache, files) {
            new.add(path, files).map_err(fail("note the files of"))?;
        }
        Ok(ReadDirectory {
            mode: Mode::from_bits(disk::mode(&stat)),
            modified: disk::modified(&stat),
            tree: root.map_or(Tree::EMPTY, |root| Tree {
                root: Some(root.hash),
                count: root.totals.count,
                bytes: root.totals.bytes,
            }),
            times: times_root,
        })
    }

    /// Reads some entries of a directory. Its descriptor is closed while the
    /// directories below are read, so that depth costs no descriptors.
    fn window(
        &self,
        path: &TreePath,
        fd: &mut Option<OwnedFd>,
        window: Vec<(Name, FileType)>,
        known: &Known,
    ) -> Result<Vec<(Name, ReadEntry)>> {
        let (directories, leaves): (Vec<_>, Vec<_>) = window
            .into_iter()
            .partition(|(_, kind)| *kind == FileType::Directory);
        let mut read = if leaves.is_empty() {
            Vec::new()
        } else {
            if fd.is_none() {
                let opened = self.root.open_directory(path);
                *fd = Some(opened.map_err(|source| Error::Io {
                    action: "open",
                    path: path.clone(),
                    source,
                })?);
            }
            let Some(open) = fd.as_ref().map(AsFd::as_fd) else {
                return Ok(Vec::new());
            };
            self.leaves(path, open, leaves, known)?
        };
        if !directories.is_empty() {
            *fd = None;
            let below: Vec<_> = directories
                .into_par_iter()
                .with_max_len(1)
                .map(|(name, _)| self.subdirectory(path, name, known))
                .collect::<Result<_>>()?;
            read.extend(below.into_iter().flatten());
            read.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        self.progress.add(read.len() as u64, 0);
        Ok(read)
    }

    fn subdirectory(
        &self,
        path: &TreePath,
        name: Name,
        known: &Known,
    ) -> Result<Option<(Name, ReadEntry)>> {
        let known = known.get(&name).and_then(KnownEntry::directory);
        let read = match self.directory(&path.join(&name)?, known) {
            Err(Error::Io {
                source, path: at, ..
            }) if disk::is_absent(&source) && at.starts_with(path) => {
                self.lose(LossKind::Vanished, path, Some(&name));
                return Ok(None);
            }
            other => other?,
        };
        Ok(Some((name, ReadEntry::directory(&read))))
    }

    fn leaves(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        leaves: Vec<(Name, FileType)>,
        known: &Known,
    ) -> Result<Vec<(Name, ReadEntry)>> {
        let read: Vec<Option<(Name, ReadEntry)>> = leaves
            .into_par_iter()
            .with_min_len(SLICE)
            .map(|(name, kind)| {
                let known = known.get(&name);
                let read = self.leaf(path, fd, &name, kind, known)?;
                Ok(read.map(|entry| (name, entry)))
            })
            .collect::<Result<_>>()?;
        Ok(read.into_iter().flatten().collect())
    }

    /// Reads one entry that is no directory; `None` if it cannot be kept.
    fn leaf(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        name: &Name,
        kind: FileType,
        known: Option<&KnownEntry>,
    ) -> Result<Option<ReadEntry>> {
        let read = match kind {
            FileType::RegularFile => self.file(path, fd, name, known),
            FileType::Symlink => self.link(fd, name),
            other => {
                let kind = match other {
                    FileType::Socket => LossKind::Socket,
                    FileType::Fifo => LossKind::Pipe,
                    FileType::CharacterDevice | FileType::BlockDevice => LossKind::Device,
                    _ => LossKind::Vanished,
                };
                self.lose(kind, path, Some(name));
                return Ok(None);
            }
        };
        match read {
            Ok(read) => Ok(Some(read)),
            Err(ReadError::Engine(error)) => Err(error),
            Err(ReadError::Io(error)) if disk::is_absent(&error) => {
                self.lose(LossKind::Vanished, path, Some(name));
                Ok(None)
            }
            Err(ReadError::Io(source)) => Err(Error::Io {
                action: "read",
                path: path.join(name)?,
                source,
            }),
        }
    }

    fn file(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        name: &Name,
        known: Option<&KnownEntry>,
    ) -> std::result::Result<ReadEntry, ReadError> {
        if let Some(known) = known
            && let Some(read) = self.unchanged(fd, name, known)?
        {
            return Ok(read);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::openat(fd, name.as_bytes(), flags, Bits::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ReadError::Io(Errno::NOENT.into()));
        }
        self.note_attributes(&stat, fd.as_fd(), path, Some(name));
        let content = self.content(fd, stat.st_size as u64)?;
        self.progress.add(0, content.size());
        Ok(read_file(&stat, content))
    }

    /// A file that is known, if it has not changed: to the last detail where
    /// there is a cache, otherwise in size and modification time.
    fn unchanged(
        &self,
        fd: BorrowedFd<'_>,
        name: &Name,
        known: &KnownEntry,
    ) -> io::Result<Option<ReadEntry>> {
        let Entry::File { content, .. } = known.entry else {
            return Ok(None);
        };
        if self.cache.is_some() && known.seen.is_none() {
            return Ok(None);
        }
        let stat = rustix::fs::statat(fd, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?;
        let same = match &known.seen {
            Some(seen) => *seen == Fingerprint::of(&stat),
            None => has_known_time(&stat, known, content.size()),
        };
        Ok(same.then(|| read_file(&stat, content)))
    }

    fn content(&self, fd: OwnedFd, size: u64) -> std::result::Result<Content, ReadError> {
        if size == 0 {
            return Ok(Content::Empty);
        }
        if size <= MIN_CHUNK as u64 {
            let data = Bytes::from(disk::read_up_to(fd, size as usize)?);
            if data.is_empty() {
                return Ok(Content::Empty);
            }
            let key = Kind::Chunk.key(&data);
            let content = Content::Chunk {
                hash: key.hash,
                size: data.len() as u64,
            };
            self.sink.add(vec![Object { key, data }])?;
            return Ok(content);
        }
        let mut builder = ContentBuilder::default();
        for (at, chunk) in Chunker::new(File::from(fd)).enumerate() {
            builder.push(chunk?);
            if at % CHUNKS_HELD == CHUNKS_HELD - 1 {
                self.sink.add(builder.take_objects())?;
            }
        }
        let (content, objects) = builder.finish();
        self.sink.add(objects)?;
        Ok(content)
    }

    fn link(&self, fd: BorrowedFd<'_>, name: &Name) -> std::result::Result<ReadEntry, ReadError> {
        let stat = rustix::fs::statat(fd, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?;
        let target = rustix::fs::readlinkat(fd, name.as_bytes(), Vec::with_capacity(256))?;
        let data = Bytes::from(target.into_bytes());
        if data.is_empty() || data.len() > MAX_LINK_BYTES {
            return Err(ReadError::Engine(Error::LinkTarget));
        }
        let key = Kind::Chunk.key(&data);
        let link = Link {
            hash: key.hash,
            size: data.len() as u64,
        };
        self.sink.add(vec![Object { key, data }])?;
        let time = TimeEntry {
            modified: disk::modified(&stat),
            children: None,
        };
        Ok(ReadEntry {
            entry: Entry::Link(link),
            time,
            fingerprint: Some(Fingerprint::of(&stat)),
        })
    }

    fn note_attributes(
        &self,
        stat: &Stat,
        fd: BorrowedFd<'_>,
        path: &TreePath,
        name: Option<&Name>,
    ) {
        self.note_bits(stat, path, name);
        if disk::has_attributes(fd) {
            self.lose(LossKind::ExtendedAttributes, path, name);
        }
    }

    fn note_bits(&self, stat: &Stat, path: &TreePath, name: Option<&Name>) {
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        for (kind, found) in [
            (LossKind::HardLink, is_file && stat.st_nlink > 1),
            (LossKind::SpecialBits, stat.st_mode & 0o7000 != 0),
            (LossKind::Owner, stat.st_uid != self.owner),
        ] {
            if found {
                self.lose(kind, path, name);
            }
        }
    }
}

fn read_file(stat: &Stat, content: Content) -> ReadEntry {
    ReadEntry {
        entry: Entry::File {
            mode: Mode::from_bits(disk::mode(stat)),
            content,
        },
        time: TimeEntry {
            modified: disk::modified(stat),
            children: None,
        },
        fingerprint: Some(Fingerprint::of(stat)),
    }
}

/// Whether a file still has the size and modification time it is known by.
fn has_known_time(stat: &Stat, known: &KnownEntry, size: u64) -> bool {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let modified = disk::modified(stat);
    let known = known.time.and_then(|time| time.modified);
    is_file && stat.st_size as u64 == size && modified.is_some() && modified == known
}

/// An error on the way from a file to the sink.
enum ReadError {
    Io(io::Error),
    Engine(Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for ReadError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}
