//! Lock files, for the threads of this process and of others. The holder of an
//! exclusive lock may delete its file.

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

/// Acquires an exclusive lock; `None` if the lock is held.
pub(crate) fn try_exclusive(path: &Path) -> io::Result<Option<File>> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(is_at(&file, path).then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether `path` is still the file that was opened there.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(opened), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (opened.dev(), opened.ino()) == (there.dev(), there.ino())
}

fn wait(path: &Path, lock: impl Fn(&File) -> io::Result<()>) -> io::Result<File> {
    loop {
        let file = open(path)?;
        lock(&file)?;
        // Otherwise the previous holder has deleted the file.
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
mod tests {
    use super::*;

    #[test]
    fn a_waiter_locks_the_new_file_after_a_lock_file_was_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = exclusive(&path).unwrap();
        assert!(try_exclusive(&path).unwrap().is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| exclusive(&path).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::remove_file(&path).unwrap();
            drop(held);
            let waited = waiting.join().unwrap();
            assert!(is_at(&waited, &path));
            assert!(try_exclusive(&path).unwrap().is_none());
        });
        let one = shared(&path).unwrap();
        let _other = shared(&path).unwrap();
        drop(one);
        assert!(try_exclusive(&path).unwrap().is_none());
    }
}
