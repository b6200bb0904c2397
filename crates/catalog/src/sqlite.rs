//! The catalog in one SQLite file.
//!
//! One connection writes, so that writers of this process queue instead of
//! failing; several others read concurrently (WAL). A change is a separate
//! transaction, or a savepoint in one that it shares with other waiting
//! changes. It takes the write lock when it begins, so that the rows it reads
//! cannot change until it ends, and is synced when it ends
//! (`synchronous=FULL`). Other processes may open the same file; the writers of
//! all processes wait for one another.

mod agents;
mod catalog;
mod commands;
mod copies;
mod database;
mod deliveries;
mod events;
mod failure;
mod found;
mod keys;
mod landings;
mod leases;
mod nodes;
mod pages;
mod policies;
mod projects;
mod quotas;
mod requests;
mod retention;
mod reviews;
mod roots;
mod sandboxes;
mod settings;
mod snapshots;
mod steps;
mod tags;
mod templates;
mod tenants;
#[cfg(test)]
mod tests;
mod transfer;
mod unsettled;
pub(crate) mod values;
mod versions;
mod webhooks;
mod workspaces;
mod write_queue;

use std::ops::Deref;
use std::path::Path;

use self::database::Database;
pub use self::database::SqliteOptions;
use crate::catalog::Catalog;
use crate::error::Result;
use crate::found::FoundCatalog;

/// A [`Catalog`] in one SQLite file. Needs a Tokio runtime.
#[derive(Debug)]
pub struct SqliteCatalog {
    database: Database,
}

impl SqliteCatalog {
    /// Opens the catalog in `file`, creates it if there is none, and migrates it
    /// to the current format. Only the owner can read the file.
    pub async fn open(file: &Path, options: &SqliteOptions) -> Result<Self> {
        let database = Database::open(file, options).await?;
        Ok(Self { database })
    }

    /// Reads the catalog in `file` without changing it. Returns `None` if there
    /// is none. Nothing may write to the file during the call.
    pub async fn find(file: &Path) -> Result<Option<FoundCatalog>> {
        found::find(file).await
    }

    /// Copies the catalog in `file`, of any format, to `to`, where no file may
    /// exist. Nothing may write to the file during the call.
    pub async fn copy_file(file: &Path, to: &Path) -> Result<()> {
        copies::copy(file, to).await
    }

    /// Copies this catalog, as it is at one moment of the call, to `to`, where no
    /// file may exist. Changes can continue during the call. The copy is synced
    /// when this returns, its directory entry may not be.
    pub async fn copy_to(&self, to: &Path) -> Result<()> {
        let reader = self.database.readers().acquire().await;
        let mut reader = reader.map_err(failure::of)?;
        copies::copy_from(&mut reader, to).await
    }
}

/// Lets callers that hold a `SqliteCatalog` rather than a `dyn Catalog` call the
/// methods of every area without importing each trait.
impl Deref for SqliteCatalog {
    type Target = dyn Catalog;

    fn deref(&self) -> &(dyn Catalog + 'static) {
        self
    }
}
