//! Lock files, for the threads of this process and of other processes. The
//! holder of an exclusive lock may delete its file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Waits for a shared lock.
pub(crate) fn shared(path: &Path) -> io::Result<File> {
    wait(path, File::lock_shared)
}

/// Waits for an exclusive lock.
pub(crate) fn exclusive(path: &Path) -> io::Result<File> {
    wait(path, File::lock)
}

/// Acquires an exclusive lock; `None` if another caller has locked the file or
/// has just deleted it.
pub(crate) fn try_exclusive(path: &Path) -> io::Result<Option<File>> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(is_at(&file, path).then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether `file` is still the file at `path`.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(opened), Ok(present)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (opened.dev(), opened.ino()) == (present.dev(), present.ino())
}

fn wait(path: &Path, lock: impl Fn(&File) -> io::Result<()>) -> io::Result<File> {
    loop {
        let file = open(path)?;
        lock(&file)?;
        // The previous holder may have deleted the file. The lock on a deleted
        // file excludes no caller, since others lock a new file.
        if is_at(&file, path) {
            return Ok(file);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).open(path)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Waits until a thread waits for the lock at `path`. The kernel lists a
    /// waiting thread with an arrow.
    #[cfg(target_os = "linux")]
    pub(crate) fn wait_for_waiter(path: &Path) {
        let inode = fs::metadata(path).unwrap().ino();
        let is_waiter = |line: &str| line.contains("->") && line.contains(&format!(":{inode} "));
        while !fs::read_to_string("/proc/locks")
            .unwrap()
            .lines()
            .any(is_waiter)
        {
            std::thread::yield_now();
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_waiter_locks_the_new_file_after_a_lock_file_was_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = exclusive(&path).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| exclusive(&path).unwrap());
            wait_for_waiter(&path);
            fs::remove_file(&path).unwrap();
            drop(held);
            let waited = waiting.join().unwrap();
            assert!(is_at(&waited, &path));
            assert!(try_exclusive(&path).unwrap().is_none());
        });
    }

    #[test]
    fn a_lock_that_is_held_is_not_acquired() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = exclusive(&path).unwrap();
        assert!(try_exclusive(&path).unwrap().is_none());
        drop(held);
        let one = shared(&path).unwrap();
        let other = shared(&path).unwrap();
        drop(one);
        assert!(try_exclusive(&path).unwrap().is_none());
        drop(other);
        assert!(try_exclusive(&path).unwrap().is_some());
    }
}
