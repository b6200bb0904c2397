//! Reads a directory, or finds that it is unchanged since it was last read.
//!
//! ```text
//! list ─► difference ─► none: the tree of the last read
//!                    └► some: windows before it are taken from the last read,
//!                             windows from there on are read
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use elevo_core::{Name, TreePath};
use rayon::prelude::*;
use rustix::fs::{AtFlags, FileType, Stat};

use super::earlier::EarlierDirectory;
use super::leaf::losses;
use super::names::Names;
use super::tree_writer::TreeWriter;
use super::{Importer, Known, KnownEntry, LastRead, LossKind, ReadDirectory, ReadEntry};
use super::{SLICE, WINDOW};
use crate::disk;
use crate::error::{Error, Result};
use crate::stat_cache::{CachedDirectory, CachedStat, Fingerprint};

/// Entries that have been read.
type Entries = Vec<(Name, ReadEntry)>;

/// A directory whose names are known, and whose entries are still to be read.
struct ListedDirectory<'a> {
    path: &'a TreePath,
    /// Closed while subdirectories are read, so that depth costs no
    /// descriptors.
    fd: Option<OwnedFd>,
    /// Metadata from before the names were listed.
    stat: Stat,
    has_attributes: bool,
    /// The names in the directory, except those that are left out.
    names: Names,
    has_ignored: bool,
}

/// Position of the first difference from the last read.
#[derive(Default)]
struct Difference {
    /// Number of unchanged windows of names before it.
    windows: usize,
    /// The directories of the next window, if they have been read already.
    below: Option<Entries>,
}

impl Importer<'_> {
    pub(super) fn directory(&self, path: &TreePath, last: LastRead) -> Result<ReadDirectory> {
        let mut cached = self.cached_directory(last);
        let mut listed = self.list(path, last, cached.as_mut())?;
        let difference = match &mut cached {
            None => Difference::default(),
            Some(cached) => match self.difference(&mut listed, cached)? {
                Some(difference) => difference,
                None => {
                    let (tree, times) = cached.read_as();
                    return Ok(ReadDirectory {
                        stat: listed.stat,
                        has_attributes: listed.has_attributes,
                        is_whole: !listed.has_ignored,
                        tree,
                        times,
                        record: last.record,
                        is_same: true,
                    });
                }
            },
        };
        self.changed_directory(listed, last, cached, difference)
    }

    /// Reads a directory from its first difference on.
    fn changed_directory(
        &self,
        mut listed: ListedDirectory<'_>,
        last: LastRead,
        cached: Option<CachedDirectory>,
        difference: Difference,
    ) -> Result<ReadDirectory> {
        let path = listed.path;
        let read_as = cached.as_ref().map(CachedDirectory::read_as);
        let read_as = read_as.or(last.read_as);
        let stats = self.new_cache.map(|new| new.directory(cached.as_ref()));
        let mut writer = TreeWriter::new(path, stats);
        let earlier = EarlierDirectory::open(self.repository, read_as, cached);
        let mut earlier = self.workers.wait(earlier)?;
        let mut below = difference.below;
        for at in 0..listed.names.windows(WINDOW) {
            let window = listed.names.window(at, WINDOW);
            let window = window.map_err(failed("list", path))?;
            let known = self.workers.wait(earlier.known(&window))?;
            let is_unchanged = at < difference.windows;
            // An entry of the cache may be missing from the earlier snapshot if
            // one of them is damaged; then the window is read.
            let taken = is_unchanged.then(|| as_known(&window, &known)).flatten();
            let read = match taken {
                Some(entries) => entries,
                None => {
                    let below = below.take_if(|_| at == difference.windows);
                    self.window(&mut listed, window, &known, below)?
                }
            };
            for (name, entry) in read {
                writer.push(name, entry)?;
            }
            // The nodes of a small directory stay in memory to the end, and are
            // not stored if its root is unchanged.
            if listed.names.len() > WINDOW {
                writer.flush(self.sink)?;
            }
        }
        let is_whole = writer.count() == listed.names.len() && !listed.has_ignored;
        // With a cache, the snapshot of the last read is held, so its nodes
        // are stored.
        let stored = read_as.filter(|_| self.cache.is_some());
        let written = writer.finish(self.sink, stored)?;
        Ok(ReadDirectory {
            stat: listed.stat,
            has_attributes: listed.has_attributes,
            is_whole,
            tree: written.tree,
            times: written.times,
            record: written.record,
            is_same: false,
        })
    }

    /// Returns the recorded metadata of a directory's entries.
    pub(super) fn cached_directory(&self, last: LastRead) -> Option<CachedDirectory> {
        self.cache?.directory(last.record?)
    }

    /// Opens a directory and lists its names, or takes them from the cache if
    /// its own metadata is unchanged.
    fn list<'a>(
        &self,
        path: &'a TreePath,
        last: LastRead,
        cached: Option<&mut CachedDirectory>,
    ) -> Result<ListedDirectory<'a>> {
        let fail = |action| failed(action, path);
        let fd = self.root.open_directory(path).map_err(fail("open"))?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| fail("inspect")(error.into()))?;
        // The recorded names are used only on a file system that changes the
        // times of a directory with its entries.
        let unchanged = last.seen.filter(|seen| {
            let is_as_seen = seen.fingerprint == Fingerprint::of(&stat);
            self.listed_once == Some(stat.st_dev) && is_as_seen
        });
        let has_attributes = match unchanged {
            Some(seen) => {
                self.note_losses(&stat, seen.has_attributes, path, None);
                seen.has_attributes
            }
            None => self.note_attributes(&stat, fd.as_fd(), path, None),
        };
        let recorded = cached.filter(|_| unchanged.is_some()).and_then(Names::seen);
        let mut names = match recorded {
            Some(names) => names,
            None => Names::read(fd.as_fd()).map_err(fail("list"))?,
        };
        names.leave_out(&self.options.leave_out);
        // The patterns may be different next time, so a directory with ignored
        // names must be listed again: it does not count as whole.
        let ignored = self.leave_out_ignored(path, fd.as_fd(), &mut names)?;
        Ok(ListedDirectory {
            path,
            fd: Some(fd),
            stat,
            has_attributes,
            names,
            has_ignored: ignored > 0,
        })
    }

    /// Returns the first difference from the last read; `None` if nothing
    /// changed at any depth.
    fn difference(
        &self,
        listed: &mut ListedDirectory<'_>,
        cached: &mut CachedDirectory,
    ) -> Result<Option<Difference>> {
        let ListedDirectory {
            path, fd, names, ..
        } = listed;
        let mut windows = 0;
        for window in names.slices(WINDOW) {
            let different = |below| Ok(Some(Difference { windows, below }));
            let (mut leaves, mut directories) = (Vec::with_capacity(window.len()), Vec::new());
            for (name, kind) in window {
                let Some(seen) = cached.next(name) else {
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
                if let Some(below) = self.different_below(path, directories)? {
                    return different(Some(below));
                }
            }
            windows += 1;
        }
        let is_same = cached.is_at_end();
        Ok((!is_same).then_some(Difference {
            windows,
            below: None,
        }))
    }

    /// Reads subdirectories with recorded metadata; `None` if all of them are
    /// unchanged.
    fn different_below(
        &self,
        path: &TreePath,
        directories: Vec<(&[u8], CachedStat)>,
    ) -> Result<Option<Entries>> {
        let read: Vec<_> = directories
            .into_par_iter()
            .with_max_len(1)
            .map(|(name, seen)| {
                let name = Name::copy_from(name).map_err(io::Error::other);
                let name = name.map_err(failed("list", path))?;
                let last = LastRead {
                    read_as: None,
                    seen: Some(seen),
                    record: seen.below,
                };
                let read = self.subdirectory(path, name, last)?;
                let is_same = read.as_ref().is_some_and(|(_, read)| {
                    read.is_same && self.is_as_recorded(&seen.fingerprint, &read.stat)
                });
                Ok((read, is_same))
            })
            .collect::<Result<_>>()?;
        self.progress.add(read.len() as u64, 0);
        if read.iter().all(|(_, is_same)| *is_same) {
            return Ok(None);
        }
        let entries = read.into_iter().filter_map(|(read, _)| read);
        let entries = entries.map(|(name, read)| (name, ReadEntry::directory(&read)));
        Ok(Some(entries.collect()))
    }

    /// Whether the recorded metadata of a directory itself can stay.
    fn is_as_recorded(&self, recorded: &Fingerprint, stat: &Stat) -> bool {
        let now = Fingerprint::of(stat);
        match self.new_cache {
            // The whole fingerprint must match: with an outdated one in the
            // cache, every scan would list the directory again.
            Some(_) if self.listed_once == Some(stat.st_dev) => *recorded == now,
            _ => recorded.has_equal_mode_and_time(&now),
        }
    }

    /// Returns the directory's descriptor; opens it again if it was closed.
    pub(super) fn opened<'a>(
        &self,
        path: &TreePath,
        fd: &'a mut Option<OwnedFd>,
    ) -> Result<BorrowedFd<'a>> {
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
        listed: &mut ListedDirectory<'_>,
        window: Vec<(Name, FileType)>,
        known: &Known,
        below: Option<Entries>,
    ) -> Result<Entries> {
        let path = listed.path;
        let (directories, leaves): (Vec<_>, Vec<_>) = window
            .into_iter()
            .partition(|(_, kind)| *kind == FileType::Directory);
        let mut entries = if leaves.is_empty() {
            Vec::new()
        } else {
            self.leaves(path, self.opened(path, &mut listed.fd)?, leaves, known)?
        };
        self.progress.add(entries.len() as u64, 0);
        let below = match below {
            Some(below) => below,
            None if directories.is_empty() => Vec::new(),
            None => {
                listed.fd = None;
                self.subdirectories(path, directories, known)?
            }
        };
        if !below.is_empty() {
            entries.extend(below);
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        Ok(entries)
    }

    fn subdirectories(
        &self,
        path: &TreePath,
        directories: Vec<(Name, FileType)>,
        known: &Known,
    ) -> Result<Entries> {
        let read: Vec<_> = directories
            .into_par_iter()
            .with_max_len(1)
            .map(|(name, _)| {
                let last = known.get(&name).map(KnownEntry::directory);
                self.subdirectory(path, name, last.unwrap_or_default())
            })
            .collect::<Result<_>>()?;
        self.progress.add(read.len() as u64, 0);
        let entries = read.into_iter().flatten();
        let entries = entries.map(|(name, read)| (name, ReadEntry::directory(&read)));
        Ok(entries.collect())
    }

    /// Reads a subdirectory; `None` if it has vanished.
    fn subdirectory(
        &self,
        path: &TreePath,
        name: Name,
        last: LastRead,
    ) -> Result<Option<(Name, ReadDirectory)>> {
        match self.directory(&path.join(&name)?, last) {
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

pub(super) fn failed(action: &'static str, path: &TreePath) -> impl Fn(io::Error) -> Error {
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
    leaves: &[(&'a [u8], CachedStat)],
) -> Option<Vec<(LossKind, &'a [u8])>> {
    let losses_of = |(name, seen): &(&'a [u8], CachedStat)| {
        let stat = rustix::fs::statat(directory, *name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if Fingerprint::of(&stat) != seen.fingerprint {
            return None;
        }
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let lost = losses(&stat, owner, seen.has_attributes);
        Some(lost.filter(|_| is_file).map(|kind| (kind, *name)).collect())
    };
    let all = leaves.par_iter().with_min_len(SLICE).map(losses_of);
    all.try_reduce(Vec::new, |mut all, some: Vec<_>| {
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
