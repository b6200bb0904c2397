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

mod edits;
mod marks;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use elevo_core::{Name, TreePath};
use elevo_objects::{DirItem, Entry, Snapshot, TimeItem, Tree};
use rayon::prelude::*;
use rustix::fs::{FileType, Stat};

use super::directory::failed;
use super::earlier::EarlierDirectory;
use super::names::Names;
use super::{
    ImportOptions, ImportResult, Imported, Importer, Job, Known, KnownEntry, LastRead, LossKind,
    ReadDirectory, ReadEntry, TreeWithTimes,
};
use super::{SLICE, WINDOW};
use crate::disk;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::stat_cache::{CachedStat, DirectoryWriter, NewStatCache, StatCache};
use crate::tree;
use marks::{DirectoryMarks, is_whiteout};

/// The attributes in which an overlay stores its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayXattrs {
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
/// As with [`import_with_cache`](crate::import_with_cache), files that are unchanged
/// since the scan recorded in `cache` are not read, and the new state is
/// recorded in it.
pub fn import_upper(
    repository: &Repository,
    (upper, marks): (&Path, OverlayXattrs),
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
/// [`scan_with_cache`](crate::scan_with_cache).
pub fn scan_upper(
    repository: &Repository,
    (upper, marks): (&Path, OverlayXattrs),
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

/// A directory of the upper to be read, and the directory below it.
struct UpperDirectory<'a> {
    path: &'a TreePath,
    marks: OverlayXattrs,
    /// The whole tree below the overlay, for redirects.
    root: TreeWithTimes,
    /// The directory of that tree which shows in this one.
    below: Option<TreeWithTimes>,
    last: LastRead,
}

/// An entry of the upper.
struct UpperEntry {
    name: Name,
    /// `None` deletes the name.
    read: Option<ReadEntry>,
}

impl UpperEntry {
    fn to_record(&self) -> Option<(Name, CachedStat)> {
        let seen = self.read.as_ref()?.seen?;
        Some((self.name.clone(), seen))
    }
}

impl Importer<'_> {
    fn run_over(mut self, base: &Snapshot, marks: OverlayXattrs) -> ImportResult {
        // Held to the end: unchanged files are not read, but taken from this
        // snapshot.
        let (_held, last) = self.known()?.unzip();
        let root = (base.tree, base.times);
        let upper = UpperDirectory {
            path: &TreePath::root(),
            marks,
            root,
            below: Some(root),
            last: last.unwrap_or_default(),
        };
        let workers = self.workers;
        let (fd, stat) = self.open_upper(upper.path)?;
        let read = workers.run(|| self.upper_directory(fd, stat, &upper))?;
        self.finish(read)
    }

    fn open_upper(&self, path: &TreePath) -> Result<(OwnedFd, Stat)> {
        let fd = self.root.open_directory(path);
        let fd = fd.map_err(failed("open", path))?;
        let stat = rustix::fs::fstat(&fd);
        let stat = stat.map_err(|error| failed("inspect", path)(error.into()))?;
        Ok((fd, stat))
    }

    /// Returns the tree that a directory shows.
    fn upper_directory(
        &self,
        fd: OwnedFd,
        stat: Stat,
        upper: &UpperDirectory<'_>,
    ) -> Result<ReadDirectory> {
        let path = upper.path;
        // Always listed, since the cache has no whiteouts.
        let mut names = Names::read(fd.as_fd()).map_err(failed("list", path))?;
        names.leave_out(&self.options.leave_out);
        let cached = self.cached_directory(upper.last);
        let writer = self.new_cache.map(|new| new.directory(cached.as_ref()));
        let earlier = EarlierDirectory::open(self.repository, upper.last.read_as, cached);
        let mut earlier = self.workers.wait(earlier)?;
        let mut entries = Vec::with_capacity(names.len());
        let mut fd = Some(fd);
        for at in 0..names.windows(WINDOW) {
            let window = names.window(at, WINDOW).map_err(failed("list", path))?;
            let known = self.workers.wait(earlier.known(&window))?;
            entries.extend(self.upper_window(upper, &mut fd, window, &known)?);
        }
        // Collected before `applied`, which consumes the entries.
        let to_record: Vec<_> = match writer {
            Some(_) => entries.iter().filter_map(UpperEntry::to_record).collect(),
            None => Vec::new(),
        };
        // Applied even if no entry changed: the base may be another one than at
        // the last read.
        let below = upper.below.unwrap_or((Tree::EMPTY, None));
        let (tree, times) = self.applied(below, entries)?;
        let record = |mut writer: DirectoryWriter<'_>| {
            for (name, seen) in to_record {
                writer.push(&name, seen)?;
            }
            writer.finish((tree, times))
        };
        let record = writer.map(record).transpose();
        Ok(ReadDirectory {
            stat,
            tree,
            times,
            record: record.map_err(failed("record the files of", path))?,
            is_same: false,
            // The caller has reported attributes that are not marks.
            has_attributes: false,
            // Whiteouts are not recorded.
            is_whole: false,
        })
    }

    /// Reads some names of the upper. The directory's descriptor is closed
    /// while subdirectories are read, so that depth costs no descriptors.
    fn upper_window(
        &self,
        upper: &UpperDirectory<'_>,
        fd: &mut Option<OwnedFd>,
        window: Vec<(Name, FileType)>,
        known: &Known,
    ) -> Result<Vec<UpperEntry>> {
        let path = upper.path;
        let (directories, leaves): (Vec<_>, Vec<_>) = window
            .into_iter()
            .partition(|(_, kind)| *kind == FileType::Directory);
        let open = self.opened(path, fd)?;
        let mut entries = leaves
            .into_par_iter()
            .with_min_len(SLICE)
            .map(|(name, kind)| self.upper_leaf(path, open, name, kind, known))
            .collect::<Result<Vec<_>>>()?;
        if !directories.is_empty() {
            *fd = None;
            let below = directories
                .into_par_iter()
                .with_max_len(1)
                .map(|(name, _)| {
                    let known = known.get(&name);
                    self.upper_subdirectory(upper, name, known)
                })
                .collect::<Result<Vec<_>>>()?;
            entries.extend(below);
            entries.sort_by(|one, other| one.name.cmp(&other.name));
        }
        self.progress.add(entries.len() as u64, 0);
        Ok(entries)
    }

    fn upper_leaf(
        &self,
        path: &TreePath,
        fd: BorrowedFd<'_>,
        name: Name,
        kind: FileType,
        known: &Known,
    ) -> Result<UpperEntry> {
        if kind == FileType::CharacterDevice && is_whiteout(fd, &name) {
            return Ok(UpperEntry { name, read: None });
        }
        let read = self.leaf(path, fd, &name, kind, known.get(&name))?;
        Ok(UpperEntry { name, read })
    }

    fn upper_subdirectory(
        &self,
        upper: &UpperDirectory<'_>,
        name: Name,
        known: Option<&KnownEntry>,
    ) -> Result<UpperEntry> {
        let read = match self.opened_subdirectory(upper, &name, known) {
            Err(Error::Io { source, path, .. })
                if disk::is_absent(&source) && path.starts_with(upper.path) =>
            {
                self.lose(LossKind::Vanished, upper.path, Some(&name));
                None
            }
            read => Some(ReadEntry::directory(&read?)),
        };
        Ok(UpperEntry { name, read })
    }

    fn opened_subdirectory(
        &self,
        upper: &UpperDirectory<'_>,
        name: &Name,
        known: Option<&KnownEntry>,
    ) -> Result<ReadDirectory> {
        let path = upper.path.join(name)?;
        let (fd, stat) = self.open_upper(&path)?;
        self.note_losses(&stat, false, upper.path, Some(name));
        let marks = DirectoryMarks::of(fd.as_fd(), upper.marks).map_err(failed("open", &path))?;
        if marks.has_others {
            self.lose(LossKind::ExtendedAttributes, upper.path, Some(name));
        }
        let below = self.shown_in(&marks, name, upper)?;
        let inside = UpperDirectory {
            path: &path,
            marks: upper.marks,
            root: upper.root,
            below,
            last: known.map(KnownEntry::directory).unwrap_or_default(),
        };
        self.upper_directory(fd, stat, &inside)
    }

    /// Returns the directory of the tree below that shows in a directory of the
    /// upper.
    fn shown_in(
        &self,
        marks: &DirectoryMarks,
        name: &Name,
        upper: &UpperDirectory<'_>,
    ) -> Result<Option<TreeWithTimes>> {
        if marks.is_opaque {
            return Ok(None);
        }
        let find = |state: Option<TreeWithTimes>, name: &[u8]| {
            self.workers
                .wait(directory_in(self.repository, state, name))
        };
        match &marks.redirect {
            None => find(upper.below, name),
            Some(beside) if !beside.starts_with(b"/") => find(upper.below, beside),
            Some(path) => {
                let mut names = path
                    .split(|byte| *byte == b'/')
                    .filter(|name| !name.is_empty());
                names.try_fold(Some(upper.root), find)
            }
        }
    }
}

/// Returns the directory `name` of a tree; `None` if it has no such directory.
pub(super) async fn directory_in(
    repository: &Repository,
    state: Option<TreeWithTimes>,
    name: &[u8],
) -> Result<Option<TreeWithTimes>> {
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
