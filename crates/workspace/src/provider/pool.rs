//! The pool of the uppers of overlays: subvolumes of a btrfs volume, which
//! support atomic snapshots independent of their size and have a hard limit.
//! The volume is the file system of the workspaces itself, if that is btrfs, or
//! one in a file.
//!
//! ```text
//! uppers/ID/         a subvolume; `upper`, `work` and `home` in it
//! uppers/ID.reading  the same at the moment when a read of it began
//! uppers/ID.fork/ID  an unfinished copy, before it is renamed to uppers/ID
//! uppers/ID.stat     the stat cache of the upper
//! uppers.img         the volume, if it is in a file
//! uppers.lock        held while the volume is created, mounted or deleted
//! ```

mod volume;

use std::fs::{self, File};
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use elevo_engine::NewStatCache;

use super::Volume;
use crate::btrfs;
use crate::error::{Error, Result};
use crate::lock;

pub(crate) use volume::{erase_pool, looks_stuck};
pub use volume::{is_pool_stuck, remount_pool};

/// A volume with a subvolume for each upper.
#[derive(Debug)]
pub(super) struct Pool {
    /// The directory `uppers`.
    directory: PathBuf,
}

/// Suffix of the snapshot of an upper that is being read. No id contains a dot.
const READING: &str = ".reading";
/// Suffix of the directory of an unfinished copy.
const FORK: &str = ".fork";
/// The pause between two checks whether btrfs has released space, and the
/// maximum number of checks.
const RECLAIM_PAUSE: Duration = Duration::from_millis(100);
const RECLAIM_CHECKS: usize = 20;

impl Pool {
    /// Opens the pool in `root`. If there is none, creates one, in a file of at
    /// most `bytes` unless `root` is on btrfs.
    pub(super) fn open(root: &Path, bytes: u64) -> Result<Self> {
        let directory = root.join("uppers");
        let failed = |error| Error::io("create a pool of uppers in", root)(error);
        // Several processes may open it for the first time at once.
        let _lock = lock::exclusive(&volume::lock_of(root)).map_err(failed)?;
        volume::prepare(&directory, bytes).map_err(|error| match error.kind() {
            // The directories exist, so it is the program that was not found.
            io::ErrorKind::NotFound => Error::NoBtrfs,
            _ => failed(error),
        })?;
        Ok(Self { directory })
    }

    /// The subvolume of an upper.
    pub(super) fn subvolume(&self, id: &str) -> PathBuf {
        self.directory.join(id)
    }

    /// The stat cache of an upper. It is outside of the subvolume, so that a
    /// workspace that has reached its limit can still be read.
    pub(super) fn cache(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.stat"))
    }

    /// Creates an empty subvolume that can hold `limit` bytes.
    pub(super) fn create(&self, id: &str, limit: Option<u64>) -> Result<()> {
        let create = || {
            btrfs::create(self.open_directory()?, id)?;
            self.limit(id, limit)
        };
        create().map_err(Error::io("create a subvolume in", &self.directory))
    }

    /// Creates a copy of the subvolume `from` at this moment.
    fn copy(&self, from: &str, id: &str, limit: Option<u64>) -> Result<()> {
        let copy = || {
            let from = File::open(self.subvolume(from))?;
            btrfs::snapshot(self.open_directory()?, from, id)?;
            self.limit(id, limit)
        };
        copy().map_err(Error::io("create a subvolume in", &self.directory))
    }

    /// Creates copies of the subvolume `from`, all of the same moment.
    pub(super) fn copy_all(&self, from: &str, ids: &[&str], limit: Option<u64>) -> Result<()> {
        let Some((first, others)) = ids.split_first() else {
            return Ok(());
        };
        // Only the first is a copy of `from`, which processes may be writing
        // to. The others are copies of the first, which is not mounted yet and
        // so does not change.
        self.copy(from, first, limit)?;
        thread::scope(|scope| {
            let copies: Vec<_> = others
                .iter()
                .map(|id| scope.spawn(|| self.copy_in_parallel(first, id, limit)))
                .collect();
            let results = copies.into_iter().map(thread::ScopedJoinHandle::join);
            let result = |end: thread::Result<_>| end.unwrap_or_else(|panic| resume_unwind(panic));
            // Joins all threads before the first error is returned.
            results
                .map(result)
                .collect::<Vec<_>>()
                .into_iter()
                .collect()
        })
    }

    /// Like [`Self::copy`], while other threads copy too. btrfs creates a
    /// snapshot when it commits, and one commit creates all snapshots that wait
    /// for it. But the parent directory is locked until the commit, so copies
    /// into one directory would each wait for a separate commit.
    fn copy_in_parallel(&self, from: &str, id: &str, limit: Option<u64>) -> Result<()> {
        let parent = self.unfinished_copy(id);
        let copy = || {
            fs::create_dir(&parent)?;
            let from = File::open(self.subvolume(from))?;
            btrfs::snapshot(File::open(&parent)?, from, id)?;
            fs::rename(parent.join(id), self.subvolume(id))?;
            fs::remove_dir(&parent)?;
            self.limit(id, limit)
        };
        copy().map_err(Error::io("create a subvolume in", &self.directory))
    }

    /// The directory in which [`Self::copy_in_parallel`] creates a copy.
    fn unfinished_copy(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}{FORK}"))
    }

    /// Deletes a copy that was not renamed. Returns whether there was one.
    fn delete_unfinished_copy(&self, id: &str) -> Result<bool> {
        let parent = self.unfinished_copy(id);
        let delete = || {
            let was_there = |deleted: io::Result<()>| match deleted {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            };
            let copy = File::open(&parent).and_then(|parent| btrfs::destroy(parent, id));
            let had_copy = was_there(copy)?;
            was_there(fs::remove_dir(&parent))?;
            Ok(had_copy)
        };
        delete().map_err(Error::io("delete a subvolume in", &parent))
    }

    /// Changes the maximum size of a subvolume. Nothing in it is deleted.
    pub(super) fn set_limit(&self, id: &str, limit: u64) -> Result<()> {
        let set = self.limit(id, Some(limit));
        set.map_err(Error::io("limit a subvolume in", &self.directory))
    }

    fn limit(&self, id: &str, limit: Option<u64>) -> io::Result<()> {
        let Some(bytes) = limit else {
            return Ok(());
        };
        let subvolume = File::open(self.subvolume(id))?;
        match btrfs::limit(&subvolume, bytes) {
            // Quotas are off until the first limit in this volume.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                btrfs::enable_quota(self.open_directory()?)?;
                btrfs::limit(&subvolume, bytes)
            }
            limited => limited,
        }
    }

    /// Whether the volume rejects writes; see [`is_pool_stuck`].
    pub(super) fn is_stuck(&self) -> bool {
        looks_stuck(self.directory.parent().unwrap_or(&self.directory))
    }

    /// Returns the bytes that count towards the limit of a subvolume, if they
    /// are counted.
    pub(super) fn used(&self, id: &str) -> Result<Option<u64>> {
        let subvolume = self.subvolume(id);
        let used = File::open(&subvolume).and_then(btrfs::used);
        used.map_err(Error::io("read the size of", &subvolume))
    }

    /// Waits until deleted files no longer count towards the limit of a
    /// subvolume. They count until the volume is synced and until btrfs has
    /// cleaned up the snapshots that were read, at a time of its choice.
    /// Returns `false` if nothing is released for two seconds.
    pub(super) fn reclaim(&self, id: &str) -> Result<bool> {
        let before = self.used(id)?;
        for _ in 0..RECLAIM_CHECKS {
            self.sync()?;
            if before.is_none() || self.used(id)? < before {
                return Ok(true);
            }
            thread::sleep(RECLAIM_PAUSE);
        }
        Ok(false)
    }

    /// Takes a snapshot of a subvolume at this moment, for a read.
    pub(super) fn snapshot_for_reading(&self, id: &str) -> Result<ReadSnapshot<'_>> {
        self.delete_interrupted_read(id)?;
        let name = format!("{id}{READING}");
        let take = || {
            let subvolume = File::open(self.subvolume(id))?;
            btrfs::snapshot_read_only(self.open_directory()?, subvolume, &name)
        };
        take().map_err(Error::io("snapshot a subvolume in", &self.directory))?;
        Ok(ReadSnapshot { pool: self, name })
    }

    /// Deletes a subvolume and everything next to it with its id, if it exists.
    /// The deletion survives a crash. Otherwise the subvolume could come back
    /// after its workspace is gone, and then nothing would delete it.
    pub(super) fn delete(&self, id: &str) -> Result<()> {
        let had_read = self.destroy(&format!("{id}{READING}"))?;
        let had_copy = self.delete_unfinished_copy(id)?;
        let cache = self.cache(id);
        for file in [NewStatCache::unfinished(&cache), cache] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("delete", &file)(error));
                }
                _ => {}
            }
        }
        // The subvolume is deleted last, because its existence decides whether
        // the workspace is in the pool.
        let had_upper = self.destroy(id)?;
        match had_upper || had_copy || had_read {
            true => self.commit(),
            false => Ok(()),
        }
    }

    /// Deletes a subvolume. Returns whether there was one.
    fn destroy(&self, name: &str) -> Result<bool> {
        let destroyed = self
            .open_directory()
            .and_then(|directory| btrfs::destroy(directory, name));
        match destroyed {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("delete a subvolume in", &self.directory)(error)),
        }
    }

    fn commit(&self) -> Result<()> {
        let committed = self.open_directory().and_then(btrfs::commit);
        committed.map_err(Error::io("commit", &self.directory))
    }

    fn open_directory(&self) -> io::Result<File> {
        File::open(&self.directory)
    }
}

impl Volume for Pool {
    fn sync(&self) -> Result<()> {
        let synced = self.open_directory().and_then(btrfs::sync);
        synced.map_err(Error::io("sync", &self.directory))
    }

    fn trim(&self) -> Result<()> {
        // A volume on its own device has no file that could shrink.
        if !volume::image_of(&self.directory).exists() {
            return Ok(());
        }
        // btrfs frees the blocks of deleted files when it commits.
        self.sync()?;
        let trimmed = self.open_directory().and_then(btrfs::trim);
        trimmed.map_err(Error::io("trim", &self.directory))
    }

    fn interrupted_reads(&self) -> Result<Vec<String>> {
        let list = || fs::read_dir(&self.directory)?.collect::<io::Result<Vec<_>>>();
        let entries = list().map_err(Error::io("list", &self.directory))?;
        let names = entries
            .iter()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let ids = names.filter_map(|name| Some(name.strip_suffix(READING)?.to_owned()));
        Ok(ids.collect())
    }

    fn delete_interrupted_read(&self, id: &str) -> Result<()> {
        self.destroy(&format!("{id}{READING}")).map(drop)
    }
}

/// A read-only snapshot of a subvolume, deleted when dropped.
pub(super) struct ReadSnapshot<'a> {
    pool: &'a Pool,
    name: String,
}

impl ReadSnapshot<'_> {
    pub(super) fn upper(&self) -> PathBuf {
        self.pool.subvolume(&self.name).join("upper")
    }
}

impl Drop for ReadSnapshot<'_> {
    fn drop(&mut self) {
        // If this fails, the next read, the next start or the deletion of the
        // workspace deletes the snapshot.
        let _ = self.pool.destroy(&self.name);
    }
}
