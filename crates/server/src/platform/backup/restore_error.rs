use std::io;
use std::path::{Path, PathBuf};

use elevo_store_local::BackupError;

use crate::platform::catalog_place::CatalogPlace;
use crate::platform::installation::Missing;

/// The reason why a backup was not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The directory neither is nor contains a backup of a server.
    #[error("{} is not a backup of a server and does not contain one", path.display())]
    NotABackup {
        /// The directory.
        path: PathBuf,
    },
    /// The backup was interrupted before it was complete.
    #[error("the backup {} is incomplete", path.display())]
    Unfinished {
        /// The backup.
        path: PathBuf,
    },
    /// A file of the backup is damaged.
    #[error("the backup {} is damaged in `{file}`", path.display())]
    Damaged {
        /// The backup.
        path: PathBuf,
        /// The damaged file.
        file: String,
    },
    /// A newer version of Elevo made the backup.
    #[error(
        "{part} {} has format {found}, and this version of Elevo reads up to {known}",
        path.display()
    )]
    Newer {
        /// The backup.
        path: PathBuf,
        /// The part of the backup that has the format, for the message.
        part: &'static str,
        /// Format of this part.
        found: i64,
        /// The newest format that this version reads.
        known: i64,
    },
    /// The directory to restore into is not empty.
    #[error("{} is not empty; restore into an empty or a new directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The store of the backup lacks snapshots that its catalog refers to.
    #[error("the store of the backup {} lacks {missing} that its catalog names", path.display())]
    MissingRoots {
        /// The backup.
        path: PathBuf,
        /// The missing snapshots.
        missing: Missing,
    },
    /// The store could not be restored.
    #[error(transparent)]
    Store(#[from] BackupError),
    /// The catalog could not be opened.
    #[error("the catalog of the backup cannot be used")]
    Catalog(#[from] elevo_catalog::Error),
    /// The store could not be searched for the roots of the catalog.
    #[error("cannot check whether the store has all snapshots that the catalog names")]
    Roots(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The catalog was in a database, and none is named.
    #[error(
        "the backup {} has no catalog: it belongs to its database at the position {position}",
        path.display()
    )]
    NeedsDatabase {
        /// The backup.
        path: PathBuf,
        /// The position in the log of the database.
        position: String,
    },
    /// The database has the catalog of another installation, or none.
    #[error("the database {database} does not have the catalog of the backup {}", path.display())]
    ForeignDatabase {
        /// The backup.
        path: PathBuf,
        /// The database.
        database: CatalogPlace,
    },
    /// The database was recovered to a moment before the backup.
    #[error(
        "the database {database} is older than the backup {}, which belongs to the position \
         {position}",
        path.display()
    )]
    OlderDatabase {
        /// The backup.
        path: PathBuf,
        /// The database.
        database: CatalogPlace,
        /// The position in the log of the database.
        position: String,
    },
    /// A server uses the database.
    #[error("a server uses the database {database}")]
    DatabaseInUse {
        /// The database.
        database: CatalogPlace,
    },
    /// The database failed.
    #[error("cannot use the database of the catalog")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The file system failed.
    #[error("cannot restore {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl RestoreError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
