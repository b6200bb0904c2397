//! Reads a directory, or finds that it is unchanged since it was last read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use elevo_core::{Name, TreePath};
use elevo_objects::{DirItem, TimeItem, Tree, TreeBuilder};
use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, Stat};

use super::earlier::Earlier;
use super::leaf::losses;
use super::names::Names;
use super::{Before, Importer, Known, KnownEntry, LossKind, ReadDirectory, ReadEntry};
use super::{SLICE, WINDOW};
use crate::disk;
use crate::error::{Error, Result};
use crate::stat_cache::{Fingerprint, Seen, SeenDirectory};

/// Entries that have been read.
type Entries = Vec<(Name, ReadEntry)>;

/// Position of the first difference from the last read.
#[derive(Default)]
struct Difference {
    /// Number of unchanged windows of names before it.
    windows: usize,
    /// The directories of the next window, if they have been read already.
    below: Option<Entries>,
}

impl Importer<'_> {
    pub(super) fn directory(&self, path: &TreePath, before: Before) -> Result<ReadDirectory> {
        let fail = |action| failed(action, path);
        let fd = self.root.open_directory(path).map_err(fail("open"))?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| fail("inspect")(error.into()))?;
        let seen = self.cache.zip(before.noted);
        let mut seen = seen.and_then(|(cache, noted)| cache.directory(noted));
        // The recorded names are used only on a file system that changes the
        // times of a directory with its entries.
        let itself = before.seen.filter(|before| {
            let is_as_seen = before.fingerprint == Fingerprint::of(&stat);
            self.listed_once == Some(stat.st_dev) && is_as_seen
        });
        let has_attributes = match itself {
            Some(itself) => {
                self.note_losses(&stat, itself.has_attributes, path, None);
                itself.has_attributes
            }
            None => self.note_attributes(&stat, fd.as_fd(), path, None),
        };
        let names = seen.as_mut().filter(|_| itself.is_some());
        let mut names = match names.and_then(Names::seen) {
            Some(names) => names,
            None => Names::read(fd.as_fd()).map_err(fail("list"))?,
        };
        names.leave_out(&self.options.leave_out);
        // The patterns may be different next time, so a directory with ignored
        // names must be listed again: it does not count as wholly noted.
        let ignored = self.leave_out_ignored(path, fd.as_fd(), &mut names)?;
        let mut fd = Some(fd);
        let difference = match &mut seen {
            Some(seen) => match self.difference(path, &mut fd, &names, seen)? {
                Some(difference) => difference,
                None => {
                    let (tree, times) = seen.read_as();
                    return Ok(ReadDirectory {
                        stat,
                        has_attributes,
                        is_whole: ignored == 0,
                        tree,
                        times,
                        noted: before.noted,
                        is_same: true,
                    });
                }
            },
            None => Difference::default(),
        };
        let known = seen.as_ref().map(SeenDirectory::read_as);
        let known = known.or(before.read_as);
        let note = fail("record the files of");
        let mut noting = self.new_cache.map(|new| new.directory(seen.as_ref()));
        let earlier = Earlier::open(self.repository, known, seen);
        let mut earlier = self.workers.wait(earlier)?;
        let mut entries = TreeBuilder::<DirItem>::new();
        let mut times = TreeBuilder::<TimeItem>::new();
        let Difference { windows, mut below } = difference;
        let mut noted_names = 0;
        for (at, window) in names.windows(WINDOW).enumerate() {
            let window = window.map_err(fail("list"))?;
            let known = self.workers.wait(earlier.known(&window))?;
            let read = match (at < windows).then(|| as_known(&window, &known)).flatten() {
                Some(read) => read,
                None => {
                    let below = below.take_if(|_| at == windows);
                    self.window(path, &mut fd, window, &known, below)?
                }
            };
            noted_names += read.len();
            for (name, read) in read {
                let ReadEntry { entry, time, seen } = read;
                if let (Some(noting), Some(seen)) = (&mut noting, seen) {
                    noting.push(&name, seen).map_err(&note)?;
                }
                if time.modified.is_some() || time.children.is_some() {
                    times.push(TimeItem {
                        name: name.clone(),
                        entry: time,
                    });
                }
                entries.push(DirItem { name, entry });
            }
            // Limits the memory for a large directory. A small one keeps its
            // nodes to the end, and stores none if its root is unchanged.
            if names.len() > WINDOW {
                self.sink.add_nodes(entries.take_finished())?;
                self.sink.add_nodes(times.take_finished())?;
            }
        }
        let root = entries.finish();
        let times_root = times.finish().map(|root| root.hash);
        // Nodes that were stored before need not be looked up in the store.
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
        let tree = root.map_or(Tree::EMPTY, |root| Tree {
            root: Some(root.hash),
            count: root.totals.count,
            bytes: root.totals.bytes,
        });
        let noted = noting.map(|noting| noting.finish((tree, times_root)));
        Ok(ReadDirectory {
            stat,
            has_attributes,
            is_whole: noted_names == names.len() && ignored == 0,
            tree,
            times: times_root,
            noted: noted.transpose().map_err(&note)?,
            is_same: false,
        })
    }

    /// Returns the first difference from the last read; `None` if nothing
    /// changed at any depth.
    fn difference(
        &self,
        path: &TreePath,
        fd: &mut Option<OwnedFd>,
        names: &Names,
        seen: &mut SeenDirectory,
    ) -> Result<Option<Difference>> {
        let mut windows = 0;
        for window in names.slices(WINDOW) {
            let different = |below| Ok(Some(Difference { windows, below }));
            let (mut leaves, mut directories) = (Vec::with_capacity(window.len()), Vec::new());
            for (name, kind) in window {
                let Some(seen) = seen.next(name) else {
                    return different(None);
                };
                match (kind, seen.below) {
                    (FileType::Directory, Some(_)) => directories.push((name, seen)),
                    (FileType::Directory, None) => return different(None),
                    _ => leaves.push((name, seen)),
                }
            }
            let open = self.opened(path, fd)?;
            let Some(losses) = as_seen(open, self.owner, &leaves) else {
                return different(None);
            };
            for (kind, name) in losses {
                self.lose(kind, path, Name::copy_from(name).ok().as_ref());
            }
            self.progress.add(leaves.len() as u64, 0);
            if !directories.is_empty() {
                *fd = None;
                let below: Vec<_> = directories
                    .into_par_iter()
                    .with_max_len(1)
                    .map(|(name, seen)| {
                        let name = Name::copy_from(name).map_err(io::Error::other);
                        let name = name.map_err(failed("list", path))?;
                        let before = Before {
                            read_as: None,
                            seen: Some(seen),
                            noted: seen.below,
                        };
                        let read = self.subdirectory(path, name, before)?;
                        let is_same = read.as_ref().is_some_and(|(_, read)| {
                            read.is_same && self.is_as_noted(&seen.fingerprint, &read.stat)
                        });
                        Ok((read, is_same))
                    })
                    .collect::<Result<_>>()?;
                self.progress.add(below.len() as u64, 0);
                if !below.iter().all(|(_, is_same)| *is_same) {
                    let below = below.into_iter().filter_map(|(read, _)| read);
                    let below = below.map(|(name, read)| (name, ReadEntry::directory(&read)));
                    return different(Some(below.collect()));
                }
            }
            windows += 1;
        }
        let is_same = seen.is_at_end();
        Ok((!is_same).then_some(Difference {
            windows,
            below: None,
        }))
    }

    /// Whether the recorded metadata of a directory itself can stay.
    fn is_as_noted(&self, noted: &Fingerprint, stat: &Stat) -> bool {
        let now = Fingerprint::of(stat);
        match self.new_cache {
            // Otherwise every scan would list the directory again.
            Some(_) if self.listed_once == Some(stat.st_dev) => *noted == now,
            _ => noted.is_kept_alike(&now),
        }
    }

    /// Returns the directory's descriptor, which is closed while subdirectories
    /// are read, so that depth costs no descriptors.
    fn opened<'a>(&self, path: &TreePath, fd: &'a mut Option<OwnedFd>) -> Result<BorrowedFd<'a>> {
        let open = match fd.take() {
            Some(open) => open,
            None => {
                let opened = self.root.open_directory(path);
                opened.map_err(failed("open", path))?
            }
        };
        let open: &OwnedFd = fd.insert(open);
        Ok(open.as_fd())
    }

    /// Reads some entries of a directory; `below` has its subdirectories if
    /// they have been read already.
    fn window(
        &self,
        path: &TreePath,
        fd: &mut Option<OwnedFd>,
        window: Vec<(Name, FileType)>,
        known: &Known,
        below: Option<Entries>,
    ) -> Result<Entries> {
        let (directories, leaves): (Vec<_>, Vec<_>) = window
            .into_iter()
            .partition(|(_, kind)| *kind == FileType::Directory);
        let mut read = if leaves.is_empty() {
            Vec::new()
        } else {
            self.leaves(path, self.opened(path, fd)?, leaves, known)?
        };
        self.progress.add(read.len() as u64, 0);
        let below = match below {
            Some(below) => below,
            None if directories.is_empty() => Vec::new(),
            None => {
                *fd = None;
                let below: Vec<_> = directories
                    .into_par_iter()
                    .with_max_len(1)
                    .map(|(name, _)| {
                        let before = known.get(&name).map(KnownEntry::directory);
                        self.subdirectory(path, name, before.unwrap_or_default())
                    })
                    .collect::<Result<_>>()?;
                self.progress.add(below.len() as u64, 0);
                let below = below.into_iter().flatten();
                let below = below.map(|(name, read)| (name, ReadEntry::directory(&read)));
                below.collect()
            }
        };
        if !below.is_empty() {
            read.extend(below);
            read.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        Ok(read)
    }

    fn subdirectory(
        &self,
        path: &TreePath,
        name: Name,
        before: Before,
    ) -> Result<Option<(Name, ReadDirectory)>> {
        match self.directory(&path.join(&name)?, before) {
            Err(Error::Io {
                source, path: at, ..
            }) if disk::is_absent(&source) && at.starts_with(path) => {
                self.lose(LossKind::Vanished, path, Some(&name));
                Ok(None)
            }
            read => Ok(Some((name, read?))),
        }
    }
}

fn failed(action: &'static str, path: &TreePath) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io {
        action,
        path: path.clone(),
        source,
    }
}

/// Returns the losses of files and links, or `None` if one of them has changed.
fn as_seen<'a>(
    directory: BorrowedFd<'_>,
    owner: u32,
    leaves: &[(&'a [u8], Seen)],
) -> Option<Vec<(LossKind, &'a [u8])>> {
    let look = |(name, seen): &(&'a [u8], Seen)| {
        let stat = rustix::fs::statat(directory, *name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if Fingerprint::of(&stat) != seen.fingerprint {
            return None;
        }
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let lost = losses(&stat, owner, seen.has_attributes);
        Some(lost.filter(|_| is_file).map(|kind| (kind, *name)).collect())
    };
    let looked = leaves.par_iter().with_min_len(SLICE).map(look);
    looked.try_reduce(Vec::new, |mut all, some: Vec<_>| {
        all.extend(some);
        Some(all)
    })
}

/// Returns unchanged entries from the earlier snapshot, if it has all of them.
fn as_known(window: &[(Name, FileType)], known: &Known) -> Option<Entries> {
    let entry = |(name, _): &(Name, FileType)| {
        let known = known.get(name)?;
        let read = ReadEntry {
            entry: known.entry.clone(),
            time: known.time?,
            seen: known.seen,
        };
        Some((name.clone(), read))
    };
    window.iter().map(entry).collect()
}
