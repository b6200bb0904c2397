//! Locks that are files, for threads of this process and of others. Whoever
//! holds one alone may remove its file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Waits until nobody holds it alone.
pub(crate) fn shared(path: &Path) -> io::Result<File> {
    wait(path, File::lock_shared)
}

/// Waits until nobody holds it.
pub(crate) fn alone(path: &Path) -> io::Result<File> {
    wait(path, File::lock)
}

/// Holds it alone, unless somebody else holds it.
pub(crate) fn try_alone(path: &Path) -> io::Result<Option<File>> {
    let file = open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(is_at(&file, path).then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether `path` still is the file that was opened there.
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
        // Otherwise whoever held it has removed it.
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
    fn a_lock_that_was_removed_is_taken_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = alone(&path).unwrap();
        assert!(try_alone(&path).unwrap().is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| alone(&path).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::remove_file(&path).unwrap();
            drop(held);
            let waited = waiting.join().unwrap();
            assert!(is_at(&waited, &path));
            assert!(try_alone(&path).unwrap().is_none());
        });
        let one = shared(&path).unwrap();
        let _other = shared(&path).unwrap();
        drop(one);
        assert!(try_alone(&path).unwrap().is_none());
    }
}
