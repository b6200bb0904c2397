//! Backups of a whole server.
//!
//! ```text
//! BACKUPS/
//!   lock             locked while a backup runs
//!   unfinished/      the running backup, or one that was interrupted
//!   NAME/            a backup, named by its time; the newest is the last by name
//!     SERVER-BACKUP  lists the files with their hashes; written last
//!     catalog.db     a copy of the catalog, of one moment
//!     store/         a backup of the store: see `elevo-store-local`
//!     audit/         the audit log
//!     workspaces/TENANT/registry/log   records of workspaces, all of them parked
//!     workspaces/TENANT/restored       the workspaces that were live
//! ```
//!
//! A catalog in a database is not in the backup, but in backups of the database.
//! `SERVER-BACKUP` then has the position in the log of the database to which the
//! backup belongs, and a restore needs the database recovered up to there.
//!
//! The catalog is copied first and the store last, and no garbage is collected
//! in between. Objects are stored before the catalog refers to them, so a later
//! copy of the store has everything that an earlier copy of the catalog refers
//! to. Between the two copies, the files of each live workspace are stored as a
//! snapshot, which the copy of the store then contains.

mod database;
pub(crate) mod files;
pub(crate) mod manifest;
pub(crate) mod restore;
mod restore_error;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use crate::platform::backup::restore::RestoredServer;
pub use crate::platform::backup::restore::restore_server;
pub use crate::platform::backup::restore_error::RestoreError;

pub(crate) const UNFINISHED: &str = "unfinished";
pub(crate) const CATALOG: &str = "catalog.db";
pub(crate) const STORE: &str = "store";
pub(crate) const AUDIT: &str = "audit";
pub(crate) const WORKSPACES: &str = "workspaces";
/// The file with the workspaces of a tenant that were live, which a restored
/// server resumes.
pub(crate) const RESTORED: &str = "restored";

/// Lists the finished backups in a directory, the newest last.
pub(crate) fn all(backups: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(backups) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_unfinished = path.file_name().is_some_and(|name| name == UNFINISHED);
        if !is_unfinished && manifest::is_backup(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
