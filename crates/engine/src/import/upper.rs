//! Imports the upper directory of an overlay: its changes to the tree below it.
//! The cost depends on the upper, not on the size of the tree below.
//!
//! | in the upper | means |
//! |---|---|
//! | character device 0/0 | the name is deleted |
//! | directory with `overlay.opaque` = `y` | nothing from below shows in it |
//! | directory with `overlay.redirect` | shows another directory of the tree below: the path if it starts with `/`, else the sibling of that name |
//! | other directory | merges with the directory of the same name below, if there is one |
//! | anything else | replaces the entry below |

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use elevo_core::{Name, TreePath};
use elevo_objects::{DirItem, Entry, Snapshot, TimeEntry, TimeItem, Tree};
use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, Stat};

use super::earlier::Earlier;
use super::names::Names;
use super::{
    Before, ImportOptions, Imported, Importer, Job, KnownEntry, LossKind, ReadAs, ReadDirectory,
    ReadEntry,
};
use super::{SLICE, WINDOW};
use crate::disk;
use crate::error::{Error, Result, at_root};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::stat_cache::{DirectoryToSee, Fingerprint, NewStatCache, Seen, StatCache};
use crate::tree;

/// The attributes in which an overlay stores its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Attributes that only root can write.
    Trusted,
    /// Attributes that every user can write to own files: the overlay was
    /// mounted in a user namespace. In any other overlay they belong to users
    /// and are not marks.
    User,
}

/// Reads the upper directory of an overlay whose lower directories hold `base`:
/// the result is the tree that the overlay shows. Blocks.
///
/// As with [`import_again`](crate::import_again), files that are unchanged
/// since the scan recorded in `cache` are not read, and the new state is
/// recorded in it.
pub fn import_upper(
    repository: &Repository,
    (upper, marks): (&Path, Marks),
    base: &Snapshot,
    options: &ImportOptions,
    progress: &Progress,
    cache: &NewStatCache,
) -> Result<Imported> {
    let old = cache.old();
    let job = Job {
        cache: Some(&old),
        new_cache: Some(cache),
        ..Job::new(repository, upper, options, progress)
    };
    job.into_store(|importer| importer.run_over(base, marks))
}

/// Like [`import_upper`], without storing anything; see
/// [`look_again`](crate::look_again).
pub fn look_upper(
    repository: &Repository,
    (upper, marks): (&Path, Marks),
    base: &Snapshot,
    options: &ImportOptions,
    progress: &Progress,
    cache: &StatCache,
) -> Result<(Tree, Repository)> {
    let job = Job {
        cache: Some(cache),
        ..Job::new(repository, upper, options, progress)
    };
    job.into_view(|importer| importer.run_over(base, marks))
}

/// The changes of a directory to the one below it, in the order of names.
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

/// Position of a directory of the upper, and the directory below it.
struct Place<'a> {
    path: &'a TreePath,
    marks: Marks,
    /// The whole tree below the overlay.
    root: ReadAs,
    /// The directory of it that shows in this one.
    below: Option<ReadAs>,
    /// State at the last read.
    before: Before,
    /// Whether no entry was added, removed or renamed in it since.
    is_same: bool,
}

/// An entry of the upper; `read` is `None` for a deletion.
struct Found {
    name: Name,
    read: Option<ReadEntry>,
    /// Whether it is unchanged since the last read.
    is_same: bool,
}

impl Found {
    fn to_note(&self) -> Option<(Name, Seen)> {
        let seen = self.read.as_ref()?.seen?;
        Some((self.name.clone(), seen))
    }
}

impl Importer<'_> {
    fn run_over(mut self, base: &Snapshot, marks: Marks) -> super::Found {
        // Held to the end: unchanged files are not read, but taken from this
        // snapshot.
        let (_held, before) = self.known()?.unzip();
        let root = (base.tree, base.times);
        let place = Place {
            path: &TreePath::root(),
            marks,
            root,
            below: Some(root),
            before: before.unwrap_or_default(),
            is_same: false,
        };
        let workers = self.workers;
        let fd = self
            .root
            .open_directory(place.path)
            .map_err(at_root("open"))?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| at_root("inspect")(error.into()))?;
        let read = workers.run(|| self.upper_directory(fd, stat, &place))?;
        self.finish(read)
    }

    /// Returns the tree that a directory shows.
    fn upper_directory(&self, fd: OwnedFd, stat: Stat, place: &Place<'_>) -> Result<ReadDirectory> {
        let path = place.path;
        let fail = |action| {
            move |source| Error::Io {
                action,
                path: path.clone(),
                source,
            }
        };
        let mut names = Names::read(fd.as_fd()).map_err(fail("list"))?;
        names.leave_out(&self.options.leave_out);
        let seen = self.cache.zip(place.before.noted);
        let seen = seen.and_then(|(cache, noted)| cache.directory(noted));
        let noting = self.new_cache.map(|new| new.directory(seen.as_ref()));
        let earlier = Earlier::open(self.repository, place.before.read_as, seen);
        let mut earlier = self.workers.wait(earlier)?;
        let mut found = Vec::with_capacity(names.len());
        let mut fd = Some(fd);
        for window in names.windows(WINDOW) {
            let window = window.map_err(fail("list"))?;
            let known = self.workers.wait(earlier.known(&window))?;
            found.extend(self.upper_window(place, &mut fd, window, &known)?);
        }
        let noted: Vec<_> = match noting {
            Some(_) => found.iter().filter_map(Found::to_note).collect(),
            None => Vec::new(),
        };
        let is_same = place.is_same && found.iter().all(|found| found.is_same);
        let (tree, times) = match place.before.read_as {
            Some(known) if is_same => known,
            _ => self.apply(place.below.unwrap_or((Tree::EMPTY, None)), found)?,
        };
        let note = |mut noting: DirectoryToSee<'_>| {
            for (name, seen) in noted {
                noting.push(&name, seen)?;
            }
            noting.finish((tree, times))
        };
        let noted = noting.map(note).transpose();
        Ok(ReadDirectory {
            stat,
            tree,
            times,
            noted: noted.map_err(fail("record the files of"))?,
            is_same,
            has_attributes: false,
            is_whole: false,
        })
    }

    fn apply(&self, (tree, times): ReadAs, found: Vec<Found>) -> Result<ReadAs> {
        if found.is_empty() {
            return Ok((tree, times));
        }
        let mut edits = Edits::default();
        for Found { name, read, .. } in found {
            edits.push(name, read.map(|read| (read.entry, read.time)));
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

    /// Reads some names of the upper. The directory's descriptor is closed
    /// while subdirectories are read, so that depth costs no descriptors.
    fn upper_window(
        &self,
        place: &Place<'_>,
        fd: &mut Option<OwnedFd>,
        window: Vec<(Name, FileType)>,
        known: &super::Known,
    ) -> Result<Vec<Found>> {
        let path = place.path;
        let (directories, leaves): (Vec<_>, Vec<_>) = window
            .into_iter()
            .partition(|(_, kind)| *kind == FileType::Directory);
        let open = match fd.take() {
            Some(fd) => fd,
            None => self.root.open_directory(path).map_err(|source| Error::Io {
                action: "open",
                path: path.clone(),
                source,
            })?,
        };
        let mut found = leaves
            .into_par_iter()
            .with_min_len(SLICE)
            .map(|(name, kind)| self.upper_leaf(path, open.as_fd(), name, kind, known))
            .collect::<Result<Vec<_>>>()?;
        if directories.is_empty() {
            *fd = Some(open);
        } else {
            drop(open);
            let below = directories
                .into_par_iter()
                .with_max_len(1)
                .map(|(name, _)| {
                    let known = known.get(&name);
                    self.upper_subdirectory(place, name, known)
                })
                .collect::<Result<Vec<_>>>()?;
            found.extend(below);
            found.sort_by(|one, other| one.name.cmp(&other.name));
        }
        self.progress.add(found.len() as u64, 0);
        Ok(found)
    }

    fn upper_leaf(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        name: Name,
        kind: FileType,
        known: &super::Known,
    ) -> Result<Found> {
        let known = known.get(&name);
        if kind == FileType::CharacterDevice && is_whiteout(fd, &name) {
            // Only its name could change.
            return Ok(Found {
                name,
                read: None,
                is_same: true,
            });
        }
        let read = self.leaf(path, fd, &name, kind, known)?;
        let is_same = is_seen(known, read.as_ref());
        Ok(Found {
            name,
            read,
            is_same,
        })
    }

    fn upper_subdirectory(
        &self,
        place: &Place<'_>,
        name: Name,
        known: Option<&KnownEntry>,
    ) -> Result<Found> {
        match self.opened_subdirectory(place, &name, known) {
            Err(Error::Io { source, path, .. })
                if disk::is_absent(&source) && path.starts_with(place.path) =>
            {
                self.lose(LossKind::Vanished, place.path, Some(&name));
                Ok(Found {
                    name,
                    read: None,
                    is_same: false,
                })
            }
            Err(error) => Err(error),
            Ok((read, is_same)) => Ok(Found {
                name,
                read: Some(read),
                is_same,
            }),
        }
    }

    fn opened_subdirectory(
        &self,
        place: &Place<'_>,
        name: &Name,
        known: Option<&KnownEntry>,
    ) -> Result<(ReadEntry, bool)> {
        let path = place.path.join(name)?;
        let fail = |source| Error::Io {
            action: "open",
            path: path.clone(),
            source,
        };
        let fd = self.root.open_directory(&path).map_err(fail)?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| fail(error.into()))?;
        let fingerprint = Fingerprint::of(&stat);
        self.note_losses(&stat, false, place.path, Some(name));
        let below = self
            .shown_in(fd.as_fd(), name, place)
            .map_err(|error| match error {
                AttributeError::Io(source) => fail(source),
                AttributeError::Engine(error) => error,
            })?;
        let inside = Place {
            path: &path,
            marks: place.marks,
            root: place.root,
            below,
            before: known.map(KnownEntry::directory).unwrap_or_default(),
            is_same: known
                .and_then(|known| known.seen)
                .is_some_and(|seen| seen.fingerprint == fingerprint),
        };
        let read = self.upper_directory(fd, stat, &inside)?;
        Ok((ReadEntry::directory(&read), read.is_same))
    }

    /// Returns the directory of the tree below that shows in a directory of the
    /// upper.
    fn shown_in(
        &self,
        fd: BorrowedFd<'_>,
        name: &Name,
        place: &Place<'_>,
    ) -> std::result::Result<Option<ReadAs>, AttributeError> {
        let marks = Marked::of(fd, place.marks)?;
        if marks.has_others {
            self.lose(LossKind::ExtendedAttributes, place.path, Some(name));
        }
        if marks.is_opaque {
            return Ok(None);
        }
        let find = |state: Option<ReadAs>, name: &[u8]| {
            self.workers
                .wait(directory_in(self.repository, state, name))
        };
        Ok(match marks.redirect {
            None => find(place.below, name)?,
            Some(beside) if !beside.starts_with(b"/") => find(place.below, &beside)?,
            Some(path) => {
                let mut names = path
                    .split(|byte| *byte == b'/')
                    .filter(|name| !name.is_empty());
                names.try_fold(Some(place.root), find)?
            }
        })
    }
}

/// Whether a file or link is unchanged since the last read.
fn is_seen(known: Option<&KnownEntry>, read: Option<&ReadEntry>) -> bool {
    let seen = known.and_then(|known| known.seen);
    let seen = seen.map(|seen| seen.fingerprint);
    let now = read.and_then(|read| read.seen);
    let now = now.map(|seen| seen.fingerprint);
    seen.is_some() && seen == now
}

enum AttributeError {
    Io(io::Error),
    Engine(Error),
}

impl From<io::Error> for AttributeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Error> for AttributeError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// The marks of overlayfs on a directory.
#[derive(Default)]
struct Marked {
    is_opaque: bool,
    redirect: Option<Vec<u8>>,
    /// Whether there are other attributes, too.
    has_others: bool,
}

impl Marked {
    fn of(fd: BorrowedFd<'_>, marks: Marks) -> io::Result<Self> {
        let is_anybodys = marks == Marks::User;
        let prefix: &[u8] = match marks {
            Marks::Trusted => b"trusted.overlay.",
            Marks::User => b"user.overlay.",
        };
        let mut marks = Self::default();
        for name in disk::attributes(fd)?.split(|byte| *byte == 0) {
            match name.strip_prefix(prefix) {
                Some(b"opaque") => marks.is_opaque = attribute(fd, name)? == b"y",
                // A redirect that any user could have written is not followed.
                Some(b"redirect") if !is_anybodys => marks.redirect = Some(attribute(fd, name)?),
                Some(_) => {}
                None => marks.has_others |= !name.is_empty(),
            }
        }
        Ok(marks)
    }
}

pub(super) async fn directory_in(
    repository: &Repository,
    state: Option<ReadAs>,
    name: &[u8],
) -> Result<Option<ReadAs>> {
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

fn attribute(fd: BorrowedFd<'_>, name: &[u8]) -> io::Result<Vec<u8>> {
    let mut value = vec![0; LONGEST_ATTRIBUTE];
    let length = rustix::fs::fgetxattr(fd, name, &mut value[..])?;
    value.truncate(length);
    Ok(value)
}

/// Maximum length of a path.
const LONGEST_ATTRIBUTE: usize = 4096;
