//! The volume of a pool: creates it in a file, mounts it, mounts it again after
//! the disk below it was full, and deletes it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::fs::StatVfsMountFlags;

use super::FORK;
use crate::btrfs;
use crate::error::{Error, Result};
use crate::lock;
use crate::mounts;

/// The pause between two attempts to mount a volume again, and the maximum
/// number of attempts.
const REMOUNT_PAUSE: Duration = Duration::from_millis(100);
const REMOUNT_ATTEMPTS: usize = 10;
/// The type of btrfs in `statfs(2)`.
const BTRFS: u64 = 0x9123_683e;
/// The smallest volume that `mkfs.btrfs` creates with its default options.
const MIN_BYTES: u64 = 128 << 20;

/// Whether the workspaces in `root` reject all writes: the kernel makes the
/// volume of their pool read-only when its file cannot grow because the disk
/// below is full. [`remount_pool`] makes it writable again. A volume that is
/// not mounted counts as stuck too. If the volume is being created or mounted,
/// this function waits until that is done.
pub fn is_pool_stuck(root: &Path) -> bool {
    if !looks_stuck(root) {
        return false;
    }
    let _lock = lock::exclusive(&lock_of(root));
    looks_stuck(root)
}

/// Like [`is_pool_stuck`] without the wait, for callers that hold a lock, and
/// for volumes that are not being created.
pub(crate) fn looks_stuck(root: &Path) -> bool {
    let directory = root.join("uppers");
    if !image_of(&directory).exists() {
        return false;
    }
    let flags = rustix::fs::statvfs(&directory).map(|stat| stat.f_flag);
    let is_read_only = flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY));
    is_read_only || !is_btrfs(&directory).is_ok_and(|is_btrfs| is_btrfs)
}

/// Remounts the pool of the workspaces in `root` if it is stuck. The pool then
/// has the data of its last sync. All its workspaces are unmounted; the next use of a
/// workspace mounts it. Fails if a process uses one of them; the pool is then
/// still stuck.
pub fn remount_pool(root: &Path) -> Result<()> {
    let failed = || Error::io("remount the pool of", root);
    let root = root.canonicalize().map_err(failed())?;
    let directory = root.join("uppers");
    let _lock = lock::exclusive(&lock_of(&root)).map_err(failed())?;
    // While the volume is unmounted, a workspace looks as if it had no changes,
    // so no caller may take a snapshot of it.
    let _locks = lock_all_workspaces(&root).map_err(failed())?;
    let mut last = io::Error::other("processes use the volume that is read-only");
    for _ in 0..REMOUNT_ATTEMPTS {
        if !looks_stuck(&root) {
            return Ok(());
        }
        mounts::unmount_volume(&directory).map_err(failed())?;
        // The kernel closes a volume a moment after its last mount is
        // unmounted. Until then, a mount of the file fails or shows the old,
        // read-only volume.
        if let Err(error) = mount_image(&directory) {
            last = error;
        }
        if looks_stuck(&root) {
            thread::sleep(REMOUNT_PAUSE);
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
        // The lock excludes a concurrent remount, which would mount the volume
        // again.
        let _lock = lock::exclusive(&lock_of(root))?;
        mounts::unmount_volume(&directory)?;
        let image = image_of(&directory);
        for file in [unfinished_image(&image), image] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match is_btrfs(&directory) {
            // The pool was in the file system of the workspaces. Subvolumes
            // there are deleted without a walk through their files.
            Ok(true) => destroy_below(&directory),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    erase().map_err(Error::io("delete the pool of", root))
}

/// Deletes the subvolumes in a directory of a pool, and unfinished copies.
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
fn lock_all_workspaces(root: &Path) -> io::Result<Vec<File>> {
    let mut locks = Vec::new();
    for live_dir in fs::read_dir(root.join("live"))? {
        // A directory without a lock is being created or deleted.
        if let Ok(lock) = File::open(live_dir?.path().join("lock")) {
            lock.try_lock()?;
            locks.push(lock);
        }
    }
    Ok(locks)
}

/// Mounts the volume on `directory`, and creates it first in a file of `bytes`
/// if there is none. Does nothing on btrfs.
pub(super) fn prepare(directory: &Path, bytes: u64) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    if is_btrfs(directory)? {
        return Ok(());
    }
    let image = image_of(directory);
    if !image.exists() {
        create_image(&image, bytes)?;
    }
    mount_image(directory)
}

/// The lock that is held while the volume is created, mounted or deleted.
pub(super) fn lock_of(root: &Path) -> PathBuf {
    root.join("uppers.lock")
}

/// The file of the volume that is mounted on `directory`.
pub(super) fn image_of(directory: &Path) -> PathBuf {
    directory.with_extension("img")
}

fn unfinished_image(image: &Path) -> PathBuf {
    image.with_extension("new")
}

fn mount_image(directory: &Path) -> io::Result<()> {
    // `noatime`: reads must not write. `nosuid` and `nodev`: agents decide what
    // is in the volume.
    let options = ["-t", "btrfs", "-o", "loop,noatime,nosuid,nodev"];
    run(Command::new("mount")
        .args(options)
        .arg(image_of(directory))
        .arg(directory))
}

fn create_image(image: &Path, bytes: u64) -> io::Result<()> {
    if bytes < MIN_BYTES {
        return Err(io::Error::other(format!(
            "a pool of uppers needs at least {MIN_BYTES} bytes"
        )));
    }
    // Renamed when it is complete: a file system that is half written would be
    // mounted otherwise.
    let unfinished = unfinished_image(image);
    File::create(&unfinished)?.set_len(bytes)?;
    format_image(&unfinished)?;
    fs::rename(unfinished, image)
}

/// `mkfs.btrfs` looks at every loop device of the machine, and fails if one of
/// them is detached meanwhile. It then runs again.
fn format_image(image: &Path) -> io::Result<()> {
    let mut attempts = 1;
    loop {
        let made = run(Command::new("mkfs.btrfs")
            .args(["--quiet", "--force"])
            .arg(image));
        match made {
            Err(error) if attempts < 5 && error.to_string().contains("mount status") => {
                attempts += 1;
            }
            made => return made,
        }
    }
}

fn is_btrfs(directory: &Path) -> io::Result<bool> {
    Ok(rustix::fs::statfs(directory)?.f_type as u64 == BTRFS)
}

/// Runs a program; an error contains its output.
fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr);
    let program = command.get_program().to_string_lossy();
    Err(io::Error::other(format!("{program}: {}", output.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_is_being_created_is_not_stuck() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let uppers = root.join("uppers");
        fs::create_dir(&uppers).unwrap();
        // The state between the creation of the file and its mount.
        fs::write(image_of(&uppers), "").unwrap();
        assert!(looks_stuck(root));
        let creating = lock::exclusive(&lock_of(root)).unwrap();
        thread::scope(|scope| {
            let checking = scope.spawn(|| is_pool_stuck(root));
            lock::tests::wait_for_waiter(&lock_of(root));
            fs::remove_file(image_of(&uppers)).unwrap();
            drop(creating);
            assert!(!checking.join().unwrap());
        });
    }
}
