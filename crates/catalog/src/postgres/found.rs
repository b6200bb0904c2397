//! Reads a catalog in a database without changing it.

use sqlx::PgConnection;

use super::failure;
use super::migrations::MIGRATIONS;
use super::options::PostgresOptions;
use crate::error::{Error, Result};
use crate::found::{self, ADOPTING, FoundCatalog, GENERATION, INSTALLATION};

const HAS_MIGRATIONS: &str = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";

const SELECT: &str = "SELECT \
     (SELECT value FROM settings WHERE name = $1), \
     (SELECT value FROM settings WHERE name = $2), \
     (SELECT value FROM settings WHERE name = $3), \
     EXISTS (SELECT 1 FROM tenants), \
     EXISTS (SELECT 1 FROM sandboxes) OR EXISTS (SELECT 1 FROM workspaces), \
     pg_current_wal_lsn()::text";

type Row = (
    Option<String>,
    Option<String>,
    Option<String>,
    bool,
    bool,
    String,
);

/// Reads the catalog in a database. Returns `None` if there is none. Fails if it
/// has a newer format.
pub(super) async fn find(url: &str, options: &PostgresOptions) -> Result<Option<FoundCatalog>> {
    let mut found = options.find_writable(url).await?;
    read(&mut found.connection).await
}

async fn read(connection: &mut PgConnection) -> Result<Option<FoundCatalog>> {
    if format(connection).await?.is_none() {
        return Ok(None);
    }
    let select = sqlx::query_as(SELECT)
        .bind(INSTALLATION)
        .bind(GENERATION)
        .bind(ADOPTING);
    let row: Row = select.fetch_one(connection).await.map_err(failure::of)?;
    let (installation, generation, adopting, has_tenants, has_workspaces, position) = row;
    Ok(Some(FoundCatalog {
        installation,
        generation: found::generation(generation)?,
        is_adopting: adopting.as_deref() == Some("yes"),
        has_tenants,
        has_workspaces,
        log_position: Some(position),
    }))
}

/// Returns the newest migration of a database; `None` if it has none. Fails if
/// this version does not know that migration.
pub(super) async fn format(connection: &mut PgConnection) -> Result<Option<i64>> {
    let has_migrations = sqlx::query_scalar(HAS_MIGRATIONS);
    let has_migrations: bool = has_migrations
        .fetch_one(&mut *connection)
        .await
        .map_err(failure::of)?;
    if !has_migrations {
        return Ok(None);
    }
    let select = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations");
    let found: Option<i64> = select.fetch_one(connection).await.map_err(failure::of)?;
    let versions = MIGRATIONS.iter().map(|migration| migration.version);
    let known = versions.max().unwrap_or_default();
    match found {
        Some(found) if found > known => Err(Error::Newer { found, known }),
        found => Ok(found),
    }
}
