//! Backups: copies of a store at one moment, made while it is written to.
//!
//! ```text
//! backups/
//!   lock        locked while a backup is being made
//!   unfinished/ the one that is being made, or was when its maker was killed
//!   NAME/       a backup; the newest is the last by name
//!     BACKUP    its files with their hashes: written last
//!     SERVER    the server of the store, if it has one
//!     db/       RocksDB, as in a store
//! ```
//!
//! RocksDB makes a checkpoint beside itself: hard links to files that never
//! change, copies of the rest, at one moment. From there files are copied; those
//! that the backup before has are hard links to that. So a backup is whole by
//! itself, can be read as a store is, and costs what is new.

mod files;
pub(crate) mod list;
mod restore;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use elevo_engine::Progress;
use rocksdb::checkpoint::Checkpoint;

use crate::open::OpenError;
use crate::rocks;
use crate::stamp::{server_stamp, set_server_stamp};
use crate::store::LocalStore;
use files::Copied;
use list::List;

pub use restore::{Restored, restore};

pub(crate) use list::is_backup;

const LOCK: &str = "lock";
const UNFINISHED: &str = "unfinished";
/// Where a checkpoint is while it is copied from, in a store.
const CHECKPOINT: &str = "checkpoint";

/// Why a backup could not be made or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The directory is no backup, and has none in it.
    #[error("{} is not a backup, and has none in it", path.display())]
    NotABackup {
        /// Which one.
        path: PathBuf,
    },
    /// A file of a backup is not what was written.
    #[error("the backup {} is damaged in `{file}`", path.display())]
    Damaged {
        /// Which backup.
        path: PathBuf,
        /// Which file of it.
        file: String,
    },
    /// Another process makes a backup in the same place.
    #[error("another backup is being made in {}", path.display())]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// A backup was to be made inside of the store.
    #[error("{} lies inside the store", path.display())]
    Inside {
        /// Where.
        path: PathBuf,
    },
    /// The store was opened for reading only.
    #[error("a store that is open for reading only cannot be backed up")]
    ReadOnly,
    /// Whoever started it has ended it.
    #[error("cancelled")]
    Cancelled,
    /// Where a backup is to be restored to, no store can be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file system failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// RocksDB could not make a checkpoint.
    #[error("the database cannot be held still")]
    Database(#[source] rocksdb::Error),
}

impl BackupError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Where it is.
    pub path: PathBuf,
    /// Its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, bytes that no earlier backup had.
    pub new_bytes: u64,
    /// Earlier ones that were removed.
    pub removed: Vec<PathBuf>,
}

impl LocalStore {
    /// Makes a backup of the store as it is at one moment of this call, in a
    /// new directory in `backups`. The newest backup is the last by name: names
    /// are best times. If there is one of this name, the new one's is longer.
    ///
    /// Commits wait while the moment is taken, some milliseconds. When this
    /// returns, all of it is on disk; before, nothing in there is taken for a
    /// backup. If `keep` is given, the oldest go until so many are left.
    pub fn backup(
        &self,
        backups: &Path,
        name: &str,
        keep: Option<usize>,
        progress: &Progress,
    ) -> Result<Backup, BackupError> {
        if !self.is_writable() {
            return Err(BackupError::ReadOnly);
        }
        private()
            .recursive(true)
            .create(backups)
            .map_err(BackupError::io("make", backups))?;
        self.check_apart(backups)?;
        let _lock = lock(backups)?;
        let earlier = all(backups)?.pop();
        let unfinished = backups.join(UNFINISHED);
        remove(&unfinished)?;
        let mut backup = self.backup_into(&unfinished, earlier.as_deref(), progress)?;
        backup.path = free_name(backups, name);
        let named = fs::rename(&unfinished, &backup.path);
        named.map_err(BackupError::io("name", &backup.path))?;
        files::sync(backups)?;
        if let Some(keep) = keep {
            backup.removed = prune(backups, keep.max(1))?;
        }
        Ok(backup)
    }

    /// Makes a backup of the store as it is at one moment of this call in
    /// `directory`, which must not be there yet. Files that did not change since
    /// the backup `earlier` are shared with it. All of it is on disk when this
    /// returns, but for the entry of the directory itself.
    pub fn backup_into(
        &self,
        directory: &Path,
        earlier: Option<&Path>,
        progress: &Progress,
    ) -> Result<Backup, BackupError> {
        if !self.is_writable() {
            return Err(BackupError::ReadOnly);
        }
        self.check_apart(directory.parent().unwrap_or(directory))?;
        private()
            .create(directory)
            .map_err(BackupError::io("make", directory))?;
        let turn = self.backing_up.lock();
        let _turn = turn.unwrap_or_else(PoisonError::into_inner);
        let checkpoint = self.directory().join(CHECKPOINT);
        remove(&checkpoint)?;
        let moment = self.checkpoint(&checkpoint);
        let copied = moment.and_then(|()| copy(&checkpoint, directory, earlier, progress));
        remove(&checkpoint)?;
        let backup = copied?;
        files::sync(directory)?;
        Ok(backup)
    }

    fn check_apart(&self, backups: &Path) -> Result<(), BackupError> {
        let absolute = |path: &Path| {
            let absolute = path.canonicalize();
            absolute.map_err(BackupError::io("find", path))
        };
        let path = absolute(backups)?;
        match path.starts_with(absolute(&self.directory())?) {
            true => Err(BackupError::Inside { path }),
            false => Ok(()),
        }
    }

    /// The database at one moment, in a directory beside it.
    fn checkpoint(&self, at: &Path) -> Result<(), BackupError> {
        // Most of what is in memory goes to table files while commits go on.
        for family in [
            rocks::CHUNKS,
            rocks::NODES,
            rocks::SNAPSHOTS,
            rocks::METADATA,
        ] {
            let flushed = self.db.flush_cf(self.family(family));
            flushed.map_err(BackupError::Database)?;
        }
        // RocksDB notes its table files first and the ends of its logs after
        // that. A commit in between could be in the log without the unlogged
        // objects that it relies on.
        let taken = self.unlogged.hold_still(|| {
            let checkpoint = Checkpoint::new(&self.db)?;
            checkpoint.create_checkpoint(at)
        });
        taken.map_err(BackupError::Database)
    }
}

/// What a backup cut off by a crash has left beside the database.
pub(crate) fn remove_checkpoint(store: &Path) -> io::Result<()> {
    match fs::remove_dir_all(store.join(CHECKPOINT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The backup at `path`, or the newest one in it.
pub fn find_backup(path: &Path) -> Result<PathBuf, BackupError> {
    if is_backup(path) {
        return Ok(path.into());
    }
    let newest = all(path)?.pop();
    newest.ok_or_else(|| BackupError::NotABackup { path: path.into() })
}

/// All backups in a directory, the newest last.
pub fn all(backups: &Path) -> Result<Vec<PathBuf>, BackupError> {
    let entries = match fs::read_dir(backups) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        entries => entries.map_err(BackupError::io("list", backups))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(BackupError::io("list", backups))?.path();
        if path.file_name().is_some_and(|name| name != UNFINISHED) && is_backup(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

fn lock(backups: &Path) -> Result<File, BackupError> {
    let path = backups.join(LOCK);
    let file = File::create(&path).map_err(BackupError::io("make", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(BackupError::Busy {
            path: backups.into(),
        }),
        Err(fs::TryLockError::Error(error)) => Err(BackupError::io("lock", &path)(error)),
    }
}

fn remove(directory: &Path) -> Result<(), BackupError> {
    match fs::remove_dir_all(directory) {
        Err(error) if !is_absent(&error) => Err(BackupError::io("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// Makes the backup from a checkpoint.
fn copy(
    checkpoint: &Path,
    directory: &Path,
    earlier: Option<&Path>,
    progress: &Progress,
) -> Result<Backup, BackupError> {
    let earlier = earlier.and_then(|path| Some((List::read(path).ok()?, path)));
    let database = directory.join(rocks::DIRECTORY);
    fs::create_dir(&database).map_err(BackupError::io("make", &database))?;
    if let Some(stamp) = checkpoint.parent().map(server_stamp).transpose()?.flatten() {
        set_server_stamp(directory, &stamp)?;
    }
    let mut list = List::default();
    let mut new_bytes = 0;
    for name in names(checkpoint)? {
        progress.check().map_err(|_| BackupError::Cancelled)?;
        let (from, to) = (checkpoint.join(&name), database.join(&name));
        let before = earlier.as_ref().and_then(|(list, path)| {
            let file = list.get(&name)?;
            Some((path.join(rocks::DIRECTORY).join(&name), *file))
        });
        let file = match before {
            Some((before, file)) if files::link(&before, &from, &to) => file,
            _ => {
                let Copied { size, hash } = files::copy(&from, &to, progress)?;
                new_bytes += size;
                list::Listed { size, hash }
            }
        };
        progress.add(1, 0);
        list.add(name, file);
    }
    files::sync(&database)?;
    list.write(directory)?;
    Ok(Backup {
        path: directory.into(),
        files: list.len(),
        bytes: list.bytes(),
        new_bytes,
        removed: Vec::new(),
    })
}

/// What is in a directory, in order.
fn names(directory: &Path) -> Result<Vec<String>, BackupError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(BackupError::io("list", directory))? {
        let entry = entry.map_err(BackupError::io("list", directory))?;
        // RocksDB's names are plain.
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn free_name(backups: &Path, name: &str) -> PathBuf {
    let mut path = backups.join(name);
    let mut number = 1;
    while path.symlink_metadata().is_ok() {
        number += 1;
        path = backups.join(format!("{name}-{number:03}"));
    }
    path
}

/// Removes the oldest backups but `keep`.
fn prune(backups: &Path, keep: usize) -> Result<Vec<PathBuf>, BackupError> {
    let mut old = all(backups)?;
    old.truncate(old.len().saturating_sub(keep));
    for path in &old {
        // From here on it is none.
        let unfinished = backups.join(UNFINISHED);
        fs::rename(path, &unfinished).map_err(BackupError::io("remove", path))?;
        remove(&unfinished)?;
    }
    Ok(old)
}

/// Makes directories that only their owner enters: a backup has the files of all
/// tenants in it.
fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}
