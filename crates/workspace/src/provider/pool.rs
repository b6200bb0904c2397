//! The pool of the uppers of overlays: subvolumes of a btrfs volume, which support
//! atomic snapshots independent of their size and have a hard limit. The volume is
//! the file system of the workspaces itself, if that is btrfs, or one in a file.
//!
//! ```text
//! uppers/ID/         a subvolume; `upper`, `work` and `home` in it
//! uppers/ID.reading  the same at the moment when reading began
//! uppers/ID.fork/ID  a copy that is being made, before it is moved to its place
//! uppers/ID.stat     the stat cache of the upper
//! uppers.img         the volume, if it is in a file
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use elevo_engine::NewStatCache;

use rustix::fs::StatVfsMountFlags;

use super::Volume;
use crate::btrfs;
use crate::error::{Error, Result};
use crate::lock;
use crate::mounts;

/// A volume with a subvolume for each upper.
#[derive(Debug)]
pub(super) struct Pool {
    directory: PathBuf,
}

/// No id ends in it.
const READING: &str = ".reading";
const FORK: &str = ".fork";
/// How long and how often to wait for room.
const RECLAIM_WAIT: Duration = Duration::from_millis(100);
const RECLAIM_WAITS: usize = 20;
/// How long and how often to wait for the end of a volume.
const REMOUNT_WAIT: Duration = Duration::from_millis(100);
const REMOUNT_WAITS: usize = 10;
const BTRFS: u64 = 0x9123_683e;
/// The smallest volume that mkfs makes without asking.
const SMALLEST: u64 = 128 << 20;

impl Pool {
    /// Opens the pool in `root`, or makes one of at most `bytes`.
    pub(super) fn open(root: &Path, bytes: u64) -> Result<Self> {
        let directory = root.join("uppers");
        let failed = |error| Error::io("make a pool of uppers in", root)(error);
        // Several may open it for the first time at once.
        let _turn = lock::exclusive(&root.join("uppers.lock")).map_err(failed)?;
        prepare(&directory, bytes).map_err(failed)?;
        Ok(Self { directory })
    }

    pub(super) fn subvolume(&self, id: &str) -> PathBuf {
        self.directory.join(id)
    }

    /// The path of an upper's stat cache, outside all limits.
    pub(super) fn cache(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.stat"))
    }

    /// Makes an empty room for an upper, that can hold `limit` bytes.
    pub(super) fn create(&self, id: &str, limit: Option<u64>) -> Result<()> {
        let make = || {
            btrfs::create(self.open_directory()?, id)?;
            self.limit(id, limit)
        };
        make().map_err(Error::io("make a subvolume in", &self.directory))
    }

    /// Makes a room that holds what another holds now.
    pub(super) fn copy(&self, from: &str, id: &str, limit: Option<u64>) -> Result<()> {
        let make = || {
            let from = File::open(self.subvolume(from))?;
            btrfs::snapshot(self.open_directory()?, from, id, false)?;
            self.limit(id, limit)
        };
        make().map_err(Error::io("make a subvolume in", &self.directory))
    }

    /// Makes rooms that all hold what another holds now.
    pub(super) fn copy_all(&self, from: &str, ids: &[&str], limit: Option<u64>) -> Result<()> {
        let Some((first, others)) = ids.split_first() else {
            return Ok(());
        };
        // The first copy is of this moment. The others are copies of the first, which
        // no process can write to yet.
        self.copy(from, first, limit)?;
        thread::scope(|scope| {
            let copies: Vec<_> = others
                .iter()
                .map(|id| scope.spawn(|| self.copy_beside(first, id, limit)))
                .collect();
            let ends = copies.into_iter().map(thread::ScopedJoinHandle::join);
            let ended = |end: thread::Result<_>| end.unwrap_or_else(|panic| resume_unwind(panic));
            ends.map(ended).collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// The same as [`Self::copy`], while others are made. A snapshot is made by a
    /// commit of the volume, which makes all that wait for it; but its directory
    /// is locked until then, so each copy has a separate directory.
    fn copy_beside(&self, from: &str, id: &str, limit: Option<u64>) -> Result<()> {
        let aside = self.aside(id);
        let make = || {
            fs::create_dir(&aside)?;
            let from = File::open(self.subvolume(from))?;
            btrfs::snapshot(File::open(&aside)?, from, id, false)?;
            fs::rename(aside.join(id), self.subvolume(id))?;
            fs::remove_dir(&aside)?;
            self.limit(id, limit)
        };
        make().map_err(Error::io("make a subvolume in", &self.directory))
    }

    fn aside(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}{FORK}"))
    }

    /// Removes a copy that was not moved to its place.
    fn end_copy(&self, id: &str) -> Result<()> {
        let aside = self.aside(id);
        let end = || {
            let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            match File::open(&aside).and_then(|directory| btrfs::destroy(directory, id)) {
                Err(error) if !is_gone(&error) => return Err(error),
                _ => {}
            }
            match fs::remove_dir(&aside) {
                Err(error) if !is_gone(&error) => Err(error),
                _ => Ok(()),
            }
        };
        end().map_err(Error::io("remove a subvolume in", &aside))
    }

    /// Sets how many bytes a room can hold from now on; nothing in it is lost.
    pub(super) fn set_limit(&self, id: &str, limit: u64) -> Result<()> {
        let set = self.limit(id, Some(limit));
        set.map_err(Error::io("limit a subvolume in", &self.directory))
    }

    pub(super) fn is_stuck(&self) -> bool {
        looks_stuck(self.directory.parent().unwrap_or(&self.directory))
    }

    fn limit(&self, id: &str, limit: Option<u64>) -> io::Result<()> {
        let Some(bytes) = limit else {
            return Ok(());
        };
        let room = File::open(self.subvolume(id))?;
        match btrfs::limit(&room, bytes) {
            // Nothing was ever limited in this volume.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                btrfs::enable_quota(self.open_directory()?)?;
                btrfs::limit(&room, bytes)
            }
            limited => limited,
        }
    }

    /// Returns the bytes that are charged to a room, if they are counted.
    pub(super) fn used(&self, id: &str) -> Result<Option<u64>> {
        let room = self.subvolume(id);
        let used = File::open(&room).and_then(btrfs::used);
        used.map_err(Error::io("look at the size of", &room))
    }

    /// Waits until what was removed is not charged to a room any more: it is
    /// until the volume is synced, and until readings that had it are cleared
    /// away, which btrfs does on its own time. `false` if nothing is given back
    /// for a while.
    pub(super) fn reclaim(&self, id: &str) -> Result<bool> {
        let before = self.used(id)?;
        for _ in 0..RECLAIM_WAITS {
            self.sync()?;
            if before.is_none() || self.used(id)? < before {
                return Ok(true);
            }
            thread::sleep(RECLAIM_WAIT);
        }
        Ok(false)
    }

    /// Creates a view of an upper at this moment. Dropping the view deletes it.
    pub(super) fn reading(&self, id: &str) -> Result<InReading<'_>> {
        self.delete_interrupted_read(id)?;
        let name = format!("{id}{READING}");
        let make = || {
            let room = File::open(self.subvolume(id))?;
            btrfs::snapshot(self.open_directory()?, room, &name, true)
        };
        make().map_err(Error::io("snapshot a subvolume in", &self.directory))?;
        Ok(InReading { pool: self, name })
    }

    /// Removes a room and what is read of it, if there is any.
    pub(super) fn remove(&self, id: &str) -> Result<()> {
        self.delete_interrupted_read(id)?;
        self.end_copy(id)?;
        let cache = self.cache(id);
        for file in [NewStatCache::unfinished(&cache), cache] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &file)(error));
                }
                _ => {}
            }
        }
        self.destroy(id)
    }

    fn destroy(&self, name: &str) -> Result<()> {
        let destroyed = self
            .open_directory()
            .and_then(|directory| btrfs::destroy(directory, name));
        match destroyed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove a subvolume in", &self.directory)(error))
            }
            _ => Ok(()),
        }
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
        if !image_of(&self.directory).exists() {
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
        self.destroy(&format!("{id}{READING}"))
    }
}

/// Whether the workspaces in `root` take no more writes: the kernel makes the
/// volume of their pool read-only when its file cannot grow because the disk
/// below is full. [`remount_pool`] ends that. A volume that is not mounted counts
/// as stuck as well, unless it is being made: this waits until it is.
pub fn is_pool_stuck(root: &Path) -> bool {
    if !looks_stuck(root) {
        return false;
    }
    // Held while a pool is made.
    let _turn = lock::exclusive(&root.join("uppers.lock"));
    looks_stuck(root)
}

/// The same without the wait, for callers that hold a lock, and for pools that
/// were made long ago.
pub(crate) fn looks_stuck(root: &Path) -> bool {
    let directory = root.join("uppers");
    if !image_of(&directory).exists() {
        return false;
    }
    let flags = rustix::fs::statvfs(&directory).map(|stat| stat.f_flag);
    let is_read_only = flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY));
    is_read_only || !is_btrfs(&directory).is_ok_and(|is_btrfs| is_btrfs)
}

/// Mounts the pool of the workspaces in `root` again, if it is stuck, with what
/// it held when it was last synced. All its workspaces are unmounted, and mounted
/// when they are next used. Fails if a process uses one of them; the pool is then
/// still stuck.
pub fn remount_pool(root: &Path) -> Result<()> {
    let failed = || Error::io("mount again the pool of", root);
    let root = root.canonicalize().map_err(failed())?;
    let directory = root.join("uppers");
    let _turn = lock::exclusive(&root.join("uppers.lock")).map_err(failed())?;
    // Without its pool, a workspace would look as if nothing had been changed.
    let _held = hold_places(&root).map_err(failed())?;
    let mut last = io::Error::other("processes use the volume that is read-only");
    for _ in 0..REMOUNT_WAITS {
        if !looks_stuck(&root) {
            return Ok(());
        }
        mounts::unmount_volume(&directory).map_err(failed())?;
        // The kernel ends a volume a moment after its last mount; until then it
        // gives the old one, or refuses.
        if let Err(error) = mount_image(&directory) {
            last = error;
        }
        if looks_stuck(&root) {
            thread::sleep(REMOUNT_WAIT);
        }
    }
    match looks_stuck(&root) {
        true => Err(failed()(last)),
        false => Ok(()),
    }
}

/// Deletes the pool of the workspaces in `root`, if there is one, and unmounts
/// every overlay that keeps its changes there.
pub(crate) fn erase_pool(root: &Path) -> Result<()> {
    let directory = root.join("uppers");
    let erase = || -> io::Result<()> {
        // A remount would bring the volume back.
        let _turn = lock::exclusive(&root.join("uppers.lock"))?;
        mounts::unmount_volume(&directory)?;
        let image = image_of(&directory);
        for file in [image.with_extension("new"), image] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match is_btrfs(&directory) {
            Ok(true) => destroy_below(&directory),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    erase().map_err(Error::io("delete the pool of", root))
}

/// Deletes the subvolumes in a directory of a pool, and copies that were not moved
/// to their place.
fn destroy_below(directory: &Path) -> io::Result<()> {
    /// The inode of the root of every subvolume.
    const ROOT: u64 = 256;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let stat = entry.metadata()?;
        if stat.is_dir() && stat.ino() == ROOT {
            btrfs::destroy(File::open(directory)?, &name)?;
        } else if stat.is_dir() && name.ends_with(FORK) {
            destroy_below(&entry.path())?;
        }
    }
    Ok(())
}

/// Locks every workspace against other callers.
fn hold_places(root: &Path) -> io::Result<Vec<File>> {
    let mut held = Vec::new();
    for live_dir in fs::read_dir(root.join("live"))? {
        // A place without a lock is being made, or removed.
        if let Ok(lock) = File::open(live_dir?.path().join("lock")) {
            lock.try_lock()?;
            held.push(lock);
        }
    }
    Ok(held)
}

/// A read-only subvolume.
pub(super) struct InReading<'a> {
    pool: &'a Pool,
    name: String,
}

impl InReading<'_> {
    pub(super) fn upper(&self) -> PathBuf {
        self.pool.subvolume(&self.name).join("upper")
    }
}

impl Drop for InReading<'_> {
    fn drop(&mut self) {
        // Otherwise it goes with the workspace, or before the next reading.
        let _ = self.pool.destroy(&self.name);
    }
}

fn prepare(directory: &Path, bytes: u64) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    if is_btrfs(directory)? {
        return Ok(());
    }
    let image = image_of(directory);
    if !image.exists() {
        make_image(&image, bytes)?;
    }
    mount_image(directory)
}

fn image_of(directory: &Path) -> PathBuf {
    directory.with_extension("img")
}

fn mount_image(directory: &Path) -> io::Result<()> {
    // So that power loss finds what was synced, and nothing is written for
    // being read.
    let options = ["-t", "btrfs", "-o", "loop,noatime,nosuid,nodev"];
    run(Command::new("mount")
        .args(options)
        .arg(image_of(directory))
        .arg(directory))
}

fn make_image(image: &Path, bytes: u64) -> io::Result<()> {
    if bytes < SMALLEST {
        return Err(io::Error::other(format!(
            "a pool has at least {SMALLEST} bytes"
        )));
    }
    let unfinished = image.with_extension("new");
    File::create(&unfinished)?.set_len(bytes)?;
    run(Command::new("mkfs.btrfs")
        .args(["--quiet", "--force"])
        .arg(&unfinished))?;
    fs::rename(unfinished, image)
}

fn is_btrfs(directory: &Path) -> io::Result<bool> {
    Ok(rustix::fs::statfs(directory)?.f_type as u64 == BTRFS)
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let program = command.get_program().to_string_lossy();
    Err(io::Error::other(format!("{program}: {}", said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_is_being_made_is_not_stuck() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let uppers = root.join("uppers");
        fs::create_dir(&uppers).unwrap();
        // As it is between the making of its file and the mount.
        fs::write(image_of(&uppers), "").unwrap();
        assert!(looks_stuck(root));
        let making = lock::exclusive(&root.join("uppers.lock")).unwrap();
        thread::scope(|scope| {
            let looking = scope.spawn(|| is_pool_stuck(root));
            while !is_awaited(root) {
                thread::yield_now();
            }
            fs::remove_file(image_of(&uppers)).unwrap();
            drop(making);
            assert!(!looking.join().unwrap());
        });
    }

    /// Whether a thread waits for the lock of a pool: the kernel lists it.
    fn is_awaited(root: &Path) -> bool {
        let inode = fs::metadata(root.join("uppers.lock")).unwrap().ino();
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let is_it = |line: &str| line.contains("->") && line.contains(&format!(":{inode} "));
        locks.lines().any(is_it)
    }
}
