//! The catalog in a PostgreSQL database, which several processes share.
//!
//! A change is one transaction. It locks the rows that it decides on, in this
//! order: the limits of the server, the owner, the project, the workspace, the
//! review. Advisory locks are of the transaction, never of the session, so that
//! a pooler can sit in between; only migrations lock sessions, and they bypass the
//! pooler. Their classes: 1 a tenant, 2 a node, 3 the numbering of events, 4 a
//! project, 5 the limits of the server, 6 deferred migrations.

mod agents;
mod catalog;
mod commands;
mod database;
mod deferred;
mod deliveries;
mod events;
mod examine;
mod failure;
mod follower;
mod found;
mod keys;
mod land_call;
mod land_review;
mod landings;
mod leases;
mod migrations;
mod nodes;
mod options;
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
mod values;
mod versions;
mod webhooks;
mod workspaces;

use std::ops::Deref;

use self::database::Database;
pub use self::examine::PostgresCheck;
pub use self::options::PostgresOptions;
use crate::catalog::Catalog;
use crate::error::Result;
use crate::found::FoundCatalog;

/// A [`Catalog`] in a PostgreSQL database. Needs a Tokio runtime.
#[derive(Debug)]
pub struct PostgresCatalog {
    database: Database,
}

impl PostgresCatalog {
    /// Opens the catalog in the database of this URL, and migrates it to the
    /// current format. The URL can have several hosts,
    /// `postgres://USER@HOST:PORT,HOST:PORT/DATABASE`: the one that can be written
    /// is used, and chosen again when it is lost.
    pub async fn open(url: &str, options: &PostgresOptions) -> Result<Self> {
        let database = Database::open(url, options).await?;
        Ok(Self { database })
    }

    /// Fails if this is not the URL of a database. Connects to nothing.
    pub fn check_url(url: &str) -> Result<()> {
        options::check_url(url)
    }

    /// Reads the catalog in the database of this URL without changing it. Returns
    /// `None` if the database has none.
    pub async fn find(url: &str, options: &PostgresOptions) -> Result<Option<FoundCatalog>> {
        found::find(url, options).await
    }

    /// Checks the version, the standby and the settings of the database of this
    /// URL without changing it. Fails if no host can be written.
    pub async fn examine(url: &str, options: &PostgresOptions) -> Result<Vec<PostgresCheck>> {
        examine::examine(url, options).await
    }
}

/// Lets callers that hold a `PostgresCatalog` rather than a `dyn Catalog` call
/// the methods of every area without importing each trait.
impl Deref for PostgresCatalog {
    type Target = dyn Catalog;

    fn deref(&self) -> &(dyn Catalog + 'static) {
        self
    }
}
