//! Notices changes in a directory tree while hostile processes change it.
//!
//! Every directory has an `inotify` watch. A directory is opened by `openat2`
//! beneath the root without symbolic links, and watched by its descriptor, so
//! that no link leads a watch out of the tree. No descriptor stays open: it would
//! keep the file system from being unmounted.
//!
//! A new directory is watched first and listed then, so files that were created
//! in between are reported, maybe twice. A directory that is moved away loses the
//! watches of all directories in it, and one that is moved in counts as new. So
//! the paths in events never depend on pairs of events.

pub(crate) mod directories;
pub(crate) mod events;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::platform::watch::directories::Directories;
use crate::platform::watch::events::Raw;

/// Maximum directories of one watch.
pub(crate) const MAX_DIRECTORIES: usize = 10_000;

/// Maximum memory for the entries of new directories that are reported one by
/// one, in bytes. It has room for 10,000 short paths.
const MAX_FOUND: usize = 1 << 20;

/// Maximum memory for the paths of a batch of events, in bytes. Events with
/// longer paths than fit become a gap.
const MAX_PATHS: usize = MAX_FOUND + (256 << 10);

/// Memory of an entry, without its path.
const ENTRY: usize = 64;

/// The changes that are noticed in each directory.
const MASK: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::ONLYDIR);

/// The changes of the top directory itself that are noticed, too.
const MASK_OF_TOP: WatchFlags = MASK
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// The reason why a tree cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("there is nothing at this path")]
    NoSuchPath,
    #[error("this path leads out of the workspace by a symbolic link")]
    LeadsOut,
    #[error("this path is not a directory")]
    NotADirectory,
    #[error("the server may not read this directory")]
    Unreadable,
    #[error(
        "there are more than {MAX_DIRECTORIES} directories below this path, or their paths are too long"
    )]
    TooMany,
    #[error("the server has reached the limit {0} of its machine")]
    Limit(&'static str),
    #[error("the directory cannot be watched")]
    Io(#[source] io::Error),
}

type Result<T> = std::result::Result<T, WatchError>;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Created,
    Changed,
    Deleted,
}

/// A change of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    /// Relative to the top directory.
    pub(crate) path: PathBuf,
    pub(crate) is_directory: bool,
}

/// The changes of a batch of events.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) changes: Vec<Change>,
    /// Whether a new directory has too many entries to report them.
    pub(crate) is_incomplete: bool,
    /// Whether events were lost, or the top directory is gone. The tree must be
    /// opened again.
    pub(crate) is_lost: bool,
    /// The last change of each path, to report repeated ones only once.
    last: HashMap<PathBuf, ChangeKind>,
    /// Memory of the reported entries of new directories.
    found: usize,
    /// Memory of all paths.
    paths: usize,
}

impl Batch {
    fn add(&mut self, kind: ChangeKind, path: PathBuf, is_directory: bool) {
        self.paths += path.as_os_str().len() + ENTRY;
        if self.paths > MAX_PATHS {
            self.is_incomplete = true;
            return;
        }
        let last = self.last.insert(path.clone(), kind);
        match (last, kind) {
            (Some(ChangeKind::Changed), ChangeKind::Changed)
            | (Some(ChangeKind::Created), ChangeKind::Created) => {}
            // A client that reads a file after `created` sees the change.
            (Some(ChangeKind::Created), ChangeKind::Changed) => {
                self.last.insert(path, ChangeKind::Created);
            }
            _ => self.changes.push(Change {
                kind,
                path,
                is_directory,
            }),
        }
    }

    fn add_found(&mut self, path: PathBuf, is_directory: bool) {
        self.found += path.as_os_str().len() + ENTRY;
        match self.found > MAX_FOUND {
            true => self.is_incomplete = true,
            false => self.add(ChangeKind::Created, path, is_directory),
        }
    }
}

/// A directory tree that is watched.
#[derive(Debug)]
pub(crate) struct Tree {
    queue: Arc<OwnedFd>,
    /// The directory that no path leads out of. Only the server can change the
    /// path to it.
    root: PathBuf,
    /// The top directory, relative to `root`.
    below: PathBuf,
    /// Device and inode of the top directory.
    identity: (u64, u64),
    top: i32,
    directories: Directories,
}

impl Tree {
    /// Watches all directories below `below`. Blocks.
    pub(crate) fn open(root: PathBuf, below: PathBuf) -> Result<Self> {
        let queue = match inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) {
            Ok(queue) => queue,
            Err(Errno::MFILE) => return Err(WatchError::Limit("fs.inotify.max_user_instances")),
            Err(error) => return Err(WatchError::Io(error.into())),
        };
        let directory = open_top(&root, &below)?;
        let top = add(&queue, &directory, MASK_OF_TOP)?;
        let mut tree = Self {
            queue: Arc::new(queue),
            identity: identity(&directory)?,
            directories: Directories::new(top),
            top,
            root,
            below,
        };
        let mut pending = tree.list(&directory, top, None)?;
        tree.watch_all(&directory, &mut pending, None)?;
        Ok(tree)
    }

    /// Returns the descriptor that is readable when there are events.
    pub(crate) fn queue(&self) -> Arc<OwnedFd> {
        self.queue.clone()
    }

    /// Returns whether the path still leads to the directory that is watched.
    pub(crate) fn is_current(&self) -> bool {
        let top = open_top(&self.root, &self.below).and_then(|top| identity(&top));
        top.is_ok_and(|identity| identity == self.identity)
    }

    /// Applies events, and adds their changes to a batch. Blocks if
    /// [`events::needs_disk`] returns true for the events.
    pub(crate) fn apply(&mut self, events: Vec<Raw>, batch: &mut Batch) -> Result<()> {
        for event in events {
            let is_directory = event.what.contains(ReadFlags::ISDIR);
            let gone = ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::UNMOUNT
                | ReadFlags::IGNORED;
            if event.what.contains(ReadFlags::QUEUE_OVERFLOW)
                || event.watch == self.top && event.what.intersects(gone)
            {
                batch.is_lost = true;
                return Ok(());
            }
            if event.what.contains(ReadFlags::IGNORED) {
                // The kernel has removed the watch of a deleted directory.
                self.directories.remove(event.watch);
                continue;
            }
            // The directory may have been moved away since.
            let Some(path) = self.directories.path(event.watch, &event.name) else {
                continue;
            };
            let is_end = event
                .what
                .intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
            let is_begin = event
                .what
                .intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
            let kind = match (is_end, is_begin) {
                (true, _) => ChangeKind::Deleted,
                (_, true) => ChangeKind::Created,
                _ if event.name.is_empty() => continue,
                _ => ChangeKind::Changed,
            };
            batch.add(kind, path, is_directory);
            if is_directory && is_end {
                self.forget(event.watch, &event.name);
            }
            if is_directory && is_begin {
                let Ok(top) = open_top(&self.root, &self.below) else {
                    batch.is_lost = true;
                    return Ok(());
                };
                if identity(&top)? != self.identity {
                    batch.is_lost = true;
                    return Ok(());
                }
                let mut pending = vec![(event.watch, event.name)];
                self.watch_all(&top, &mut pending, Some(batch))?;
            }
            // The client gets a gap in any case, so further events are not worth
            // the work.
            if batch.is_incomplete {
                batch.is_lost = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Removes the watches of a directory and of all directories in it.
    fn forget(&mut self, parent: i32, name: &OsStr) {
        let Some(child) = self.directories.child(parent, name) else {
            return;
        };
        for watch in self.directories.remove(child) {
            // Fails if the kernel has already removed it.
            let _ = inotify::remove_watch(&self.queue, watch);
        }
    }

    /// Watches directories and all directories in them. Reports their entries to
    /// `batch`.
    fn watch_all(
        &mut self,
        top: impl AsFd,
        pending: &mut Vec<(i32, OsString)>,
        mut batch: Option<&mut Batch>,
    ) -> Result<()> {
        while let Some((parent, name)) = pending.pop() {
            let Some(path) = self.directories.path(parent, &name) else {
                match self.directories.contains(parent) {
                    true => return Err(WatchError::TooMany),
                    false => continue,
                }
            };
            let inside = INSIDE | ResolveFlags::NO_SYMLINKS;
            let opened = rustix::fs::openat2(&top, &path, DIRECTORY, Mode::empty(), inside);
            let directory = match opened {
                Ok(directory) => directory,
                Err(Errno::NAMETOOLONG) => return Err(WatchError::TooMany),
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                    return Err(WatchError::Io(error.into()));
                }
                // It was deleted or replaced, which is another event, or the
                // server has no right to read it.
                Err(_) => continue,
            };
            let watch = match add(&self.queue, &directory, MASK) {
                Ok(watch) => watch,
                // It was deleted or closed in the meantime.
                Err(WatchError::NoSuchPath | WatchError::Unreadable) => continue,
                Err(error) => return Err(error),
            };
            if watch == self.top {
                continue;
            }
            for replaced in self.directories.insert(watch, parent, name) {
                let _ = inotify::remove_watch(&self.queue, replaced);
            }
            // An entry of the directory must have a path, too.
            if self.directories.path(watch, OsStr::new("")).is_none() {
                return Err(WatchError::TooMany);
            }
            let found = self.list(&directory, watch, batch.as_deref_mut())?;
            pending.extend(found);
            if self.directories.len() + pending.len() > MAX_DIRECTORIES {
                return Err(WatchError::TooMany);
            }
        }
        Ok(())
    }

    /// Returns the directories in a directory. Reports all entries to `batch`.
    fn list(
        &self,
        directory: &OwnedFd,
        watch: i32,
        mut batch: Option<&mut Batch>,
    ) -> Result<Vec<(i32, OsString)>> {
        let mut found = Vec::new();
        let entries = match rustix::fs::Dir::read_from(directory) {
            Ok(entries) => entries,
            // A server without root cannot list a directory of mode 0444.
            Err(Errno::ACCESS) => return Ok(found),
            Err(error) => return Err(WatchError::Io(error.into())),
        };
        for entry in entries {
            // A directory that is deleted while it is read has no more entries.
            let Ok(entry) = entry else { break };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => is_directory(directory, name),
                _ => false,
            };
            if let Some(batch) = batch.as_deref_mut()
                && let Some(path) = self.directories.path(watch, name)
            {
                batch.add_found(path, is_directory);
            }
            if is_directory {
                found.push((watch, name.to_owned()));
                if found.len() > MAX_DIRECTORIES {
                    return Err(WatchError::TooMany);
                }
            }
        }
        Ok(found)
    }
}

/// Opens the top directory. Symbolic links that stay inside are followed.
fn open_top(root: &Path, below: &Path) -> Result<OwnedFd> {
    let root = rustix::fs::open(root, DIRECTORY, Mode::empty());
    let root = root.map_err(|error| match error {
        Errno::NOENT => WatchError::NoSuchPath,
        error => WatchError::Io(error.into()),
    })?;
    if below.as_os_str().is_empty() {
        return Ok(root);
    }
    match rustix::fs::openat2(&root, below, DIRECTORY, Mode::empty(), INSIDE) {
        Ok(directory) => Ok(directory),
        Err(Errno::NOENT | Errno::NAMETOOLONG) => Err(WatchError::NoSuchPath),
        // A link changed while it was followed, if the kernel says `AGAIN`.
        Err(Errno::XDEV | Errno::LOOP | Errno::AGAIN) => Err(WatchError::LeadsOut),
        Err(Errno::NOTDIR) => Err(WatchError::NotADirectory),
        Err(Errno::ACCESS) => Err(WatchError::Unreadable),
        Err(error) => Err(WatchError::Io(error.into())),
    }
}

fn identity(directory: &OwnedFd) -> Result<(u64, u64)> {
    let found = rustix::fs::fstat(directory);
    let found = found.map_err(|error| WatchError::Io(error.into()))?;
    Ok((found.st_dev, found.st_ino))
}

fn add(queue: &OwnedFd, directory: &OwnedFd, mask: WatchFlags) -> Result<i32> {
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    inotify::add_watch(queue, path, mask).map_err(|error| match error {
        Errno::NOSPC => WatchError::Limit("fs.inotify.max_user_watches"),
        Errno::NOENT => WatchError::NoSuchPath,
        Errno::ACCESS => WatchError::Unreadable,
        error => WatchError::Io(error.into()),
    })
}

fn is_directory(parent: &OwnedFd, name: &OsStr) -> bool {
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statat(parent, name, flags);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

#[cfg(test)]
mod tests;
