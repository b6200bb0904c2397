//! Creates and opens stores: which directory is a store, and which process
//! may write to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::backup;
use crate::format;
use crate::lock::{self, WriterLock};
use crate::options::Options;
use crate::rocks;
use crate::stamp;
use crate::store::LocalStore;

/// Reason why a store could not be created or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process writes to the store.
    #[error(
        "the store {} is being written to by {holder}; wait for it to finish, or stop it",
        path.display()
    )]
    Busy {
        /// Path of the store.
        path: PathBuf,
        /// Description that the other process left.
        holder: String,
    },
    /// The store was written by a newer version of Elevo.
    #[error(
        "the store {} has format {found}, and this version of Elevo reads up to {supported}; \
         install the version that wrote it or a newer one, or restore a backup from before the \
         upgrade",
        path.display()
    )]
    NewerFormat {
        /// Path of the store.
        path: PathBuf,
        /// Format of the store.
        found: u32,
        /// The newest format that this version reads.
        supported: u32,
    },
    /// A newer version of Elevo made the backup.
    #[error(
        "the backup {} has format {found}, and this version of Elevo reads up to {supported}; \
         install the version that made it or a newer one, or use an earlier backup",
        path.display()
    )]
    NewerBackup {
        /// Path of the backup.
        path: PathBuf,
        /// Format of the backup.
        found: u32,
        /// The newest format that this version reads.
        supported: u32,
    },
    /// The directory is not a store.
    #[error("{} is not a store; create one there first", path.display())]
    NotAStore {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A backup cannot be opened for writing.
    #[error(
        "{} is a backup and cannot be written to; restore it and open the restored store",
        path.display()
    )]
    Backup {
        /// Path of the backup.
        path: PathBuf,
    },
    /// A store cannot be created where one exists.
    #[error("{} is already a store; open it instead", path.display())]
    AlreadyAStore {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A store cannot be created in a directory with other files.
    #[error("{} is not empty (it has `{found}`); create the store in a new directory", path.display())]
    NotEmpty {
        /// Path of the directory.
        path: PathBuf,
        /// Name of one of the files.
        found: String,
    },
    /// The file that names the server of a store cannot be read.
    #[error(
        "the file {} is damaged; if the store is intact, delete the file and start the server \
         with --adopt",
        path.display()
    )]
    DamagedStamp {
        /// Path of the file.
        path: PathBuf,
    },
    /// The directory could not be read or written.
    #[error("the store {} cannot be reached", path.display())]
    Io {
        /// Path of the store.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// RocksDB could not open the database.
    #[error("the database of the store {} cannot be opened", path.display())]
    Database {
        /// Path of the store.
        path: PathBuf,
        /// Error of RocksDB.
        source: rocksdb::Error,
    },
}

impl OpenError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.into(),
            source,
        }
    }

    fn database(path: &Path, source: rocksdb::Error) -> Self {
        Self::Database {
            path: path.into(),
            source,
        }
    }
}

impl LocalStore {
    /// Creates an empty store in `path`, which must be an empty directory or
    /// not exist. If an earlier attempt was killed, this one finishes it.
    pub fn create(path: &Path, options: &Options) -> Result<Self, OpenError> {
        fs::create_dir_all(path).map_err(|error| OpenError::io(path, error))?;
        check_room(path)?;
        let lock = WriterLock::take(path, &options.holder, options.wait)?;
        check_room(path)?;
        let database = path.join(rocks::DIRECTORY);
        remove_unfinished(&database).map_err(|error| OpenError::io(path, error))?;
        let db =
            rocks::create(&database, options).map_err(|error| OpenError::database(path, error))?;
        format::write(path).map_err(|error| OpenError::io(path, error))?;
        Ok(Self::new(db, options, Some(lock)))
    }

    /// Opens the store in `path` for reading and writing. Only one process can
    /// have it open for writing; another one waits for [`Options::wait`] and
    /// then gets [`OpenError::Busy`].
    pub fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        if backup::is_backup(path) {
            return Err(OpenError::Backup { path: path.into() });
        }
        format::check(path)?;
        let lock = WriterLock::take(path, &options.holder, options.wait)?;
        format::check(path)?;
        backup::remove_checkpoint(path).map_err(|error| OpenError::io(path, error))?;
        let db = rocks::open(
            &path.join(rocks::DIRECTORY),
            options,
            lock.after_orderly_end,
        )
        .map_err(|error| OpenError::database(path, error))?;
        Ok(Self::new(db, options, Some(lock)))
    }

    /// Opens the store in `path` for reading, with or without a writer in
    /// another process; any number of processes can. Writes nothing into the
    /// directory.
    ///
    /// The result is the store as of this moment: with every commit that had
    /// returned, and none that comes later. To see later ones, open it again. A
    /// backup can be opened in the same way.
    pub fn open_read_only(path: &Path, options: &Options) -> Result<Self, OpenError> {
        match backup::is_backup(path) {
            true => backup::check_format(path)?,
            false => format::check(path)?,
        }
        let database = path.join(rocks::DIRECTORY);
        let attempt = || {
            let is_whole = lock::has_ended_orderly(path);
            match rocks::open_read_only(&database, options, is_whole) {
                // Retry: a new writer has begun to write to the log.
                Err(_) if is_whole && !lock::has_ended_orderly(path) => Ok(None),
                opened => opened.map_err(|error| OpenError::database(path, error)),
            }
        };
        let db = lock::retry(options.wait, attempt)?;
        let db = db.ok_or_else(|| OpenError::Busy {
            path: path.into(),
            holder: lock::holder(path),
        })?;
        Ok(Self::new(db, options, None))
    }
}

/// Checks that a store can be created: the directory is empty, or has only the
/// files that a killed [`LocalStore::create`] leaves.
pub(crate) fn check_room(path: &Path) -> Result<(), OpenError> {
    let failed = |error| OpenError::io(path, error);
    match format::read(path) {
        Ok(_) => return Err(OpenError::AlreadyAStore { path: path.into() }),
        Err(OpenError::NotAStore { .. }) => {}
        Err(error) => return Err(error),
    }
    for entry in fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let ours = name == lock::FILE
            || name == rocks::DIRECTORY
            || format::is_unfinished(&name)
            || stamp::is_ours(&name);
        if !ours {
            let found = name.to_string_lossy().into_owned();
            return Err(OpenError::NotEmpty {
                path: path.into(),
                found,
            });
        }
    }
    Ok(())
}

/// Deletes the database of a store that was never finished. It has no data yet,
/// and RocksDB cannot continue with every partial database.
pub(crate) fn remove_unfinished(database: &Path) -> io::Result<()> {
    match fs::remove_dir_all(database) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
