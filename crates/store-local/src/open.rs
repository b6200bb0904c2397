//! Making and opening stores: which directory is one, who may write to it.

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

/// Why a store could not be made or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another writer has it.
    #[error(
        "the store {} is being written to by {holder}; wait for it to finish, or end it",
        path.display()
    )]
    Busy {
        /// Which store.
        path: PathBuf,
        /// Who has it, in the words it left.
        holder: String,
    },
    /// Written by a newer version of Elevo.
    #[error(
        "the store {} has format {found}, this version reads up to {supported}; \
         use the version of Elevo that wrote it, or a newer one",
        path.display()
    )]
    NewerFormat {
        /// Which store.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that is understood here.
        supported: u32,
    },
    /// There is no store in this directory.
    #[error("{} is not a store; make one there first", path.display())]
    NotAStore {
        /// Which directory.
        path: PathBuf,
    },
    /// A backup was to be opened for writing.
    #[error(
        "{} is a backup, which is never written to; restore it and open what was restored",
        path.display()
    )]
    Backup {
        /// Which one.
        path: PathBuf,
    },
    /// A store was to be made where there is one.
    #[error("there is a store in {} already; open it instead", path.display())]
    AlreadyAStore {
        /// Which directory.
        path: PathBuf,
    },
    /// A store was to be made in a directory that has other things in it.
    #[error("{} is not empty (it has `{found}`); make the store in a new directory", path.display())]
    NotEmpty {
        /// Which directory.
        path: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// The file that names the server of a store cannot be read.
    #[error(
        "the file {} is damaged; if the store is whole, remove the file and start the server \
         with --adopt",
        path.display()
    )]
    DamagedStamp {
        /// Which file.
        path: PathBuf,
    },
    /// The directory could not be read or written.
    #[error("the store {} cannot be reached", path.display())]
    Io {
        /// Which store.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// RocksDB refused.
    #[error("the database of the store {} cannot be opened", path.display())]
    Database {
        /// Which store.
        path: PathBuf,
        /// Why.
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
    /// Makes an empty store in `path`, which must be an empty directory or not
    /// there yet. Where an earlier attempt was killed, this one finishes it.
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

    /// Opens the store in `path` to read and write. One process can; another
    /// waits for [`Options::wait`] and then gets [`OpenError::Busy`].
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

    /// Opens the store in `path` to read, beside a writer or without one; any
    /// number of processes can. Writes nothing into the directory.
    ///
    /// What is seen is the store as it was at this moment: every commit that
    /// had returned, none that comes later. To see those, open again. A backup
    /// can be opened in the same way.
    pub fn open_read_only(path: &Path, options: &Options) -> Result<Self, OpenError> {
        if !backup::is_backup(path) {
            format::check(path)?;
        }
        let database = path.join(rocks::DIRECTORY);
        let attempt = || {
            let is_whole = lock::has_ended_orderly(path);
            match rocks::open_read_only(&database, options, is_whole) {
                // The log that was whole is being written to now.
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

/// A store can be made where there is nothing, or what [`LocalStore::create`]
/// leaves behind when it is killed.
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

/// Nobody has put anything into a database whose store was never finished, and
/// RocksDB cannot go on with every half of one.
pub(crate) fn remove_unfinished(database: &Path) -> io::Result<()> {
    match fs::remove_dir_all(database) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
