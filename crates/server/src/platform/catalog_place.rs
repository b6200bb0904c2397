//! The place of the catalog: a file in the data directory, or a PostgreSQL
//! database.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use elevo_catalog::{
    Catalog, FoundCatalog, PostgresCatalog, PostgresCheck, PostgresOptions, SqliteCatalog,
    SqliteOptions,
};

use crate::config::{CatalogDatabase, Config, Secret};

/// The name of the file in the data directory.
pub(crate) const FILE: &str = "catalog.db";

/// The place of a catalog. Shown without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogPlace {
    /// A file.
    File(PathBuf),
    /// A database.
    Database(CatalogDatabase),
}

impl CatalogPlace {
    /// Reads a place from text: a URL is a database, and anything else is the
    /// path of a file. Fails if the URL is invalid.
    pub fn parse(text: &str) -> elevo_catalog::Result<Self> {
        if !text.contains("://") {
            return Ok(Self::File(text.into()));
        }
        PostgresCatalog::check_url(text)?;
        Ok(Self::Database(CatalogDatabase {
            url: Secret(text.to_owned()),
            direct_url: None,
            connections: PostgresOptions::default().connections,
        }))
    }

    /// Checks the version, the standby and the settings of a database. Returns
    /// nothing for a file.
    pub async fn examine(&self) -> elevo_catalog::Result<Vec<PostgresCheck>> {
        match self {
            Self::File(_) => Ok(Vec::new()),
            Self::Database(database) => {
                PostgresCatalog::examine(&database.url.0, &options(database)).await
            }
        }
    }

    pub(crate) fn of(config: &Config) -> Self {
        match &config.catalog {
            Some(database) => Self::Database(database.clone()),
            None => Self::File(config.data_dir.join(FILE)),
        }
    }

    /// Reads the catalog without changing it. Returns `None` if there is none.
    pub(crate) async fn find(&self) -> elevo_catalog::Result<Option<FoundCatalog>> {
        match self {
            Self::File(path) => SqliteCatalog::find(path).await,
            Self::Database(database) => {
                PostgresCatalog::find(&database.url.0, &options(database)).await
            }
        }
    }

    /// Opens the catalog, and migrates it to the current format.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Catalog>> {
        let opened: elevo_catalog::Result<Arc<dyn Catalog>> = match self {
            Self::File(path) => SqliteCatalog::open(path, &SqliteOptions::default())
                .await
                .map(|catalog| Arc::new(catalog) as _),
            Self::Database(database) => PostgresCatalog::open(&database.url.0, &options(database))
                .await
                .map(|catalog| Arc::new(catalog) as _),
        };
        opened.with_context(|| format!("cannot open the catalog {self}"))
    }
}

pub(crate) fn options(database: &CatalogDatabase) -> PostgresOptions {
    PostgresOptions {
        connections: database.connections,
        direct: database.direct_url.as_ref().map(|url| url.0.clone()),
        is_pooled: database.direct_url.is_some(),
        ..PostgresOptions::default()
    }
}

impl fmt::Display for CatalogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Database(database) => f.write_str(&without_credentials(&database.url.0)),
        }
    }
}

/// Returns the hosts and the database of a URL, without its user, password and
/// options.
pub(crate) fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", ""));
    let rest = rest.split('?').next().unwrap_or_default();
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{hosts}/{database}")
}

#[cfg(test)]
mod tests {
    use super::without_credentials;

    #[test]
    fn a_url_is_shown_without_credentials() {
        let shown = without_credentials("postgres://u:s@cret@one:1,two:2/db?password=secret");
        assert_eq!(shown, "postgres://one:1,two:2/db");
        assert_eq!(without_credentials("postgres://one"), "postgres://one/");
    }
}
