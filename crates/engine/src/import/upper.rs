//! The upper directory of an overlay into a repository: what it changes in the
//! tree below it. Costs what is in the upper, whatever lies below.
//!
//! | in the upper | means |
//! |---|---|
//! | character device 0/0 | the name is gone |
//! | directory with `overlay.opaque` = `y` | nothing from below shows in it |
//! | directory with `overlay.redirect` | what shows in it is another directory of the tree below: by its path if that starts with `/`, else by its name beside |
//! | other directory | merges with the one of its name below, if that is one |
//! | anything else | takes the place of what is below |

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use elevo_core::{Name, TreePath};
use elevo_objects::{DirItem, Entry, Hash, Mode, Snapshot, TimeEntry, TimeItem, Tree};
use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::earlier::Earlier;
use super::names::Names;
use super::sink::Sink;
use super::{ImportOptions, Imported, Importer, KnownEntry, LossKind, ReadDirectory, ReadEntry};
use super::{WINDOW, at_root};
use crate::blocking::Workers;
use crate::disk;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::stat_cache::{NewStatCache, StatCache};
use crate::tree;

/// A directory and the times beside it.
type State = (Tree, Option<Hash>);

/// Reads the upper directory of an overlay whose lower directories hold
/// `base`: the result is what the overlay shows. Blocks.
///
/// As with [`import_again`](crate::import_again), files that are as `cache`
/// has them are not read, and `new` notes how they are now.
pub fn import_upper(
    repository: &Repository,
    upper: &Path,
    base: &Snapshot,
    options: &ImportOptions,
    progress: &Progress,
    cache: &StatCache,
    new: &NewStatCache,
) -> Result<Imported> {
    let workers = Workers::start(options.threads).map_err(at_root("start threads for"))?;
    let sink = Sink::store(repository, &workers);
    let mut importer = Importer::open(repository, upper, options, progress, &workers, &sink)?;
    importer.cache = Some(cache);
    importer.new_cache = Some(new);
    let (read, losses) = importer.run_over(base, cache.known())?;
    Ok(Imported {
        tree: read.tree,
        times: read.times,
        losses,
        rest: sink.into_rest(),
    })
}

/// The same without storing anything; see [`look_again`](crate::look_again).
pub fn look_upper(
    repository: &Repository,
    upper: &Path,
    base: &Snapshot,
    options: &ImportOptions,
    progress: &Progress,
    cache: &StatCache,
) -> Result<(Tree, Repository)> {
    let workers = Workers::start(options.threads).map_err(at_root("start threads for"))?;
    let sink = Sink::memory();
    let mut importer = Importer::open(repository, upper, options, progress, &workers, &sink)?;
    importer.cache = Some(cache);
    let (read, _) = importer.run_over(base, cache.known())?;
    let overlay = repository.overlay(Arc::new(sink.into_nodes()));
    Ok((read.tree, overlay))
}

/// What a directory changes in the one below it, in the order of names.
#[derive(Default)]
struct Edits {
    entries: Vec<(Name, Option<DirItem>)>,
    times: Vec<(Name, Option<TimeItem>)>,
}

impl Edits {
    fn push(&mut self, name: Name, read: Option<(Entry, TimeEntry)>) {
        let (entry, time) = read.unzip();
        let time = time.filter(|time| time.modified.is_some() || time.children.is_some());
        let time = time.map(|entry| TimeItem {
            name: name.clone(),
            entry,
        });
        self.times.push((name.clone(), time));
        let entry = entry.map(|entry| DirItem {
            name: name.clone(),
            entry,
        });
        self.entries.push((name, entry));
    }
}

impl Importer<'_> {
    fn run_over(
        self,
        base: &Snapshot,
        known: Option<State>,
    ) -> Result<(ReadDirectory, Vec<super::Loss>)> {
        let root = (base.tree, base.times);
        let workers = self.workers;
        let read =
            workers.run(|| self.upper_directory(&TreePath::root(), root, Some(root), known))?;
        Ok((read, self.into_losses()))
    }

    /// `root` is all that is below the overlay, `below` what shows in this
    /// directory of it.
    fn upper_directory(
        &self,
        path: &TreePath,
        root: State,
        below: Option<State>,
        known: Option<State>,
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
        let names = Names::read(fd.as_fd()).map_err(fail("list"))?;
        let seen = self
            .cache
            .map(|cache| cache.files(path))
            .unwrap_or_default();
        let earlier = Earlier::open(self.repository, known, seen);
        let mut earlier = self.workers.wait(earlier)?;
        let mut files = self.new_cache.map(NewStatCache::files);
        let mut edits = Edits::default();
        for window in names.windows(WINDOW) {
            let window = window.map_err(fail("list"))?;
            let known = self.workers.wait(earlier.known(&window))?;
            let read = self.upper_window(path, fd.as_fd(), (root, below), window, &known)?;
            for (name, read) in read {
                let fingerprint = read.as_ref().and_then(|read| read.fingerprint);
                if let (Some(files), Some(fingerprint)) = (&mut files, &fingerprint) {
                    files.push(&name, fingerprint);
                }
                edits.push(name, read.map(|read| (read.entry, read.time)));
            }
        }
        if let (Some(new), Some(files)) = (self.new_cache, files) {
            new.add(path, files).map_err(fail("note the files of"))?;
        }
        let (tree, times) = self.apply(below.unwrap_or((Tree::EMPTY, None)), edits)?;
        Ok(ReadDirectory {
            mode: Mode::from_bits(stat.st_mode),
            modified: disk::modified(&stat),
            tree,
            times,
        })
    }

    fn apply(&self, (tree, times): State, edits: Edits) -> Result<State> {
        if edits.entries.is_empty() {
            return Ok((tree, times));
        }
        let mut objects = Vec::new();
        let edited = self.workers.wait(async {
            let entries = tree::edit(self.repository, tree.root, edits.entries, &mut objects);
            let entries = entries.await?;
            let times = tree::edit(self.repository, times, edits.times, &mut objects).await?;
            let tree = entries.map_or(Tree::EMPTY, |root| Tree {
                root: Some(root.hash),
                count: root.totals.count,
                bytes: root.totals.bytes,
            });
            Ok::<_, Error>((tree, times.map(|root| root.hash)))
        })?;
        self.sink.add(objects)?;
        Ok(edited)
    }

    /// What names of the upper stand for; `None` for nothing.
    fn upper_window(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        (root, below): (State, Option<State>),
        window: Vec<(Name, FileType)>,
        known: &super::Known,
    ) -> Result<Vec<(Name, Option<ReadEntry>)>> {
        let read = window.into_par_iter().map(|(name, kind)| {
            let known = known.get(&name);
            let read = match kind {
                FileType::Directory => self.upper_subdirectory(path, &name, root, below, known)?,
                FileType::CharacterDevice if is_whiteout(fd, &name) => None,
                _ => self.leaf(path, fd, &name, kind, known)?,
            };
            Ok((name, read))
        });
        let read = read.collect::<Result<Vec<_>>>()?;
        self.progress.add(read.len() as u64, 0);
        Ok(read)
    }

    fn upper_subdirectory(
        &self,
        path: &TreePath,
        name: &Name,
        root: State,
        below: Option<State>,
        known: Option<&KnownEntry>,
    ) -> Result<Option<ReadEntry>> {
        let known = known.and_then(|known| known.directory());
        let at = path.join(name)?;
        let shown = self.shown_in(&at, name, root, below);
        let read = shown.and_then(|below| self.upper_directory(&at, root, below, known));
        let read = match read {
            Err(Error::Io {
                source, path: at, ..
            }) if disk::is_absent(&source) && at.starts_with(path) => {
                self.lose(LossKind::Vanished, path, Some(name));
                return Ok(None);
            }
            other => other?,
        };
        Ok(Some(ReadEntry::directory(&read)))
    }

    /// What of the tree below shows in a directory of the upper.
    fn shown_in(
        &self,
        at: &TreePath,
        name: &Name,
        root: State,
        below: Option<State>,
    ) -> Result<Option<State>> {
        let fail = |source| Error::Io {
            action: "read the attributes of",
            path: at.clone(),
            source,
        };
        let fd = self.root.open_directory(at).map_err(fail)?;
        if attribute(fd.as_fd(), "opaque").map_err(fail)?.as_deref() == Some(b"y") {
            return Ok(None);
        }
        let find = |state: Option<State>, name: &[u8]| {
            self.workers
                .wait(directory_in(self.repository, state, name))
        };
        match attribute(fd.as_fd(), "redirect").map_err(fail)? {
            None => find(below, name),
            Some(beside) if !beside.starts_with(b"/") => find(below, &beside),
            Some(path) => {
                let mut names = path
                    .split(|byte| *byte == b'/')
                    .filter(|name| !name.is_empty());
                names.try_fold(Some(root), find)
            }
        }
    }
}

async fn directory_in(
    repository: &Repository,
    state: Option<State>,
    name: &[u8],
) -> Result<Option<State>> {
    let Some((tree, times)) = state else {
        return Ok(None);
    };
    let item = tree::find::<DirItem>(repository, tree.root, name).await?;
    let Some(Entry::Directory { tree, .. }) = item.map(|item| item.entry) else {
        return Ok(None);
    };
    let time = tree::find::<TimeItem>(repository, times, name).await?;
    Ok(Some((tree, time.and_then(|time| time.entry.children))))
}

fn is_whiteout(directory: BorrowedFd<'_>, name: &Name) -> bool {
    let stat = rustix::fs::statat(directory, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
    })
}

/// An attribute that overlayfs has set, as root or without.
fn attribute(fd: BorrowedFd<'_>, name: &str) -> io::Result<Option<Vec<u8>>> {
    for namespace in ["trusted", "user"] {
        let name = format!("{namespace}.overlay.{name}");
        let mut value = vec![0; LONGEST_ATTRIBUTE];
        match rustix::fs::fgetxattr(fd, name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                return Ok(Some(value));
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// A path, at most.
const LONGEST_ATTRIBUTE: usize = 4096;
