//! Backups: copies of a store at one moment, made while it is written to.
//!
//! ```text
//! backups/
//!   lock        locked while a backup is being made
//!   unfinished/ a backup in progress, or one whose process was killed
//!   NAME/       a backup; the newest is the last by name
//!     BACKUP    its files with their hashes: written last
//!     SERVER    the server of the store, if it has one
//!     db/       RocksDB, as in a store
//! ```
//!
//! RocksDB creates a checkpoint next to itself: hard links to files that never
//! change, and copies of the rest, at one moment. Files are copied from there;
//! a file that the previous backup also has becomes a hard link to that. So a
//! backup is complete by itself, can be read like a store, and costs only the
//! new files.

mod files;
pub(crate) mod list;
mod restore;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use elevo_engine::Progress;
use rocksdb::checkpoint::Checkpoint;

use crate::open::OpenError;
use crate::rocks;
use crate::stamp::{server_stamp, set_server_stamp};
use crate::store::LocalStore;
use files::Copied;
use list::FileList;

pub use restore::{Restored, restore};

pub(crate) use list::{check_format, is_backup};

const LOCK: &str = "lock";
const UNFINISHED: &str = "unfinished";
/// Directory of a checkpoint in a store, while a backup copies it.
const CHECKPOINT: &str = "checkpoint";

/// Reason why a backup could not be made or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The directory is not a backup and contains none.
    #[error("{} is not a backup and contains no backup", path.display())]
    NotABackup {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A file of a backup differs from the file that was written.
    #[error("the backup {} is damaged in `{file}`", path.display())]
    Damaged {
        /// Path of the backup.
        path: PathBuf,
        /// Name of the file.
        file: String,
    },
    /// Another process is making a backup in the same directory.
    #[error("another backup is being created in {}", path.display())]
    Busy {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The directory for backups is inside the store.
    #[error("the backup directory {} is inside the store; choose another one", path.display())]
    Inside {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The store was opened for reading only.
    #[error("a store that is open for reading only cannot be backed up")]
    ReadOnly,
    /// The caller cancelled the operation.
    #[error("cancelled")]
    Cancelled,
    /// A store cannot be created where the backup is to be restored to.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file system failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// RocksDB could not create a checkpoint.
    #[error("the database cannot create a checkpoint")]
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
    /// Path of the backup.
    pub path: PathBuf,
    /// Number of files.
    pub files: u64,
    /// Total bytes of the files.
    pub bytes: u64,
    /// Bytes that the previous backup did not have.
    pub new_bytes: u64,
    /// Earlier backups that were deleted.
    pub removed: Vec<PathBuf>,
}

impl LocalStore {
    /// Makes a backup of the store as of one moment of this call, in a new
    /// directory in `backups`. The newest backup is the last by name, so names
    /// should be times. If the name is taken, a number is appended to it.
    ///
    /// Commits wait for some milliseconds while the checkpoint is created. When
    /// this returns, the backup is durable; before that, no directory in
    /// `backups` counts as this backup. With `keep`, the oldest backups are
    /// deleted until this many are left.
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
            .map_err(BackupError::io("create", backups))?;
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

    /// Makes a backup of the store as of one moment of this call in
    /// `directory`, which must not exist yet. Files that are unchanged since
    /// the backup `earlier` are shared with it. The backup is durable when this
    /// returns, except for the entry of the directory itself.
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
            .map_err(BackupError::io("create", directory))?;
        let _turn = self.backing_up.lock();
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
        if path.starts_with(absolute(&self.directory())?) {
            Err(BackupError::Inside { path })
        } else {
            Ok(())
        }
    }

    /// Creates a checkpoint of the database in `at`.
    fn checkpoint(&self, at: &Path) -> Result<(), BackupError> {
        // First write most of the memory to table files, while commits go on.
        for family in [
            rocks::CHUNKS,
            rocks::NODES,
            rocks::SNAPSHOTS,
            rocks::METADATA,
        ] {
            let flushed = self.db.flush_cf(self.family(family));
            flushed.map_err(BackupError::Database)?;
        }
        // RocksDB records its table files first and the ends of its logs after
        // that. A commit in between could be in the log without the unlogged
        // objects that it relies on.
        let taken = self.unlogged.without_flushes(|| {
            let checkpoint = Checkpoint::new(&self.db)?;
            checkpoint.create_checkpoint(at)
        });
        taken.map_err(BackupError::Database)
    }
}

/// Deletes the checkpoint that a backup interrupted by a crash has left.
pub(crate) fn remove_checkpoint(store: &Path) -> io::Result<()> {
    match fs::remove_dir_all(store.join(CHECKPOINT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the backup at `path`, or the newest one in it.
pub fn find_backup(path: &Path) -> Result<PathBuf, BackupError> {
    if is_backup(path) {
        return Ok(path.into());
    }
    let newest = all(path)?.pop();
    newest.ok_or_else(|| BackupError::NotABackup { path: path.into() })
}

/// Returns all backups in a directory, the newest last.
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
    let file = File::create(&path).map_err(BackupError::io("create", &path))?;
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
    let earlier = earlier.and_then(|path| Some((FileList::read(path).ok()?, path)));
    let database = directory.join(rocks::DIRECTORY);
    fs::create_dir(&database).map_err(BackupError::io("create", &database))?;
    if let Some(stamp) = checkpoint.parent().map(server_stamp).transpose()?.flatten() {
        set_server_stamp(directory, &stamp)?;
    }
    let mut list = FileList::default();
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
                list::ListedFile { size, hash }
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

/// Returns the names in a directory, sorted.
fn names(directory: &Path) -> Result<Vec<String>, BackupError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(BackupError::io("list", directory))? {
        let entry = entry.map_err(BackupError::io("list", directory))?;
        // RocksDB's names are ASCII.
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

/// Deletes the oldest backups until `keep` are left.
fn prune(backups: &Path, keep: usize) -> Result<Vec<PathBuf>, BackupError> {
    let mut old = all(backups)?;
    old.truncate(old.len().saturating_sub(keep));
    for path in &old {
        // Rename the backup first, so that it no longer counts as one.
        let unfinished = backups.join(UNFINISHED);
        fs::rename(path, &unfinished).map_err(BackupError::io("remove", path))?;
        remove(&unfinished)?;
    }
    Ok(old)
}

/// Creates directories that only their owner can enter: a backup has the files
/// of all tenants.
fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}
