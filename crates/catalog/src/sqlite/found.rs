//! Reads a catalog's file without changing it.

use std::io;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::database::newest_format;
use super::failure;
use crate::error::{Error, Result};
use crate::found::{self, ADOPTING, FoundCatalog, GENERATION, INSTALLATION};

const HAS_TENANTS: &str = "SELECT EXISTS (SELECT 1 FROM tenants)";
const HAS_SANDBOXES: &str = "SELECT EXISTS (SELECT 1 FROM sandboxes)";
const HAS_WORKSPACES: &str = "SELECT EXISTS (SELECT 1 FROM workspaces)";

/// Reads `file` without changing or migrating it. Returns `None` if there is no
/// such file. Fails if it has a newer format.
pub(super) async fn find(file: &Path) -> Result<Option<FoundCatalog>> {
    if !file.try_exists().map_err(failed)? {
        return Ok(None);
    }
    let mut connection = connect_to_read(file).await?;
    let found = read(&mut connection).await;
    connection.close().await.map_err(failure::of)?;
    found.map(Some)
}

async fn read(connection: &mut SqliteConnection) -> Result<FoundCatalog> {
    format(connection).await?;
    if !has_table(connection, "settings").await? {
        return Ok(FoundCatalog::default());
    }
    let generation = setting(connection, GENERATION).await?;
    let adopting = setting(connection, ADOPTING).await?;
    let has_sandboxes = has_row(connection, "sandboxes", HAS_SANDBOXES).await?;
    let has_workspaces = has_row(connection, "workspaces", HAS_WORKSPACES).await?;
    Ok(FoundCatalog {
        installation: setting(connection, INSTALLATION).await?,
        generation: found::generation(generation)?,
        is_adopting: adopting.as_deref() == Some("yes"),
        has_tenants: has_row(connection, "tenants", HAS_TENANTS).await?,
        has_workspaces: has_sandboxes || has_workspaces,
        log_position: None,
    })
}

/// Returns the newest migration of a database; `None` if it has none. Fails if
/// this version does not know that migration.
pub(super) async fn format(connection: &mut SqliteConnection) -> Result<Option<i64>> {
    if !has_table(connection, "_sqlx_migrations").await? {
        return Ok(None);
    }
    let select = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations");
    let found: Option<i64> = select.fetch_one(connection).await.map_err(failure::of)?;
    let known = newest_format();
    match found {
        Some(found) if found > known => Err(Error::Newer { found, known }),
        found => Ok(found),
    }
}

async fn setting(connection: &mut SqliteConnection, name: &str) -> Result<Option<String>> {
    sqlx::query_scalar("SELECT value FROM settings WHERE name = ?")
        .bind(name)
        .fetch_optional(connection)
        .await
        .map_err(failure::of)
}

pub(super) async fn has_table(connection: &mut SqliteConnection, name: &str) -> Result<bool> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?)")
        .bind(name)
        .fetch_one(connection)
        .await
        .map_err(failure::of)
}

/// Returns whether a table has a row. Older formats lack some tables.
async fn has_row(
    connection: &mut SqliteConnection,
    table: &str,
    select: &'static str,
) -> Result<bool> {
    if !has_table(connection, table).await? {
        return Ok(false);
    }
    sqlx::query_scalar(select)
        .fetch_one(connection)
        .await
        .map_err(failure::of)
}

pub(super) async fn connect_to_read(file: &Path) -> Result<SqliteConnection> {
    // To read a database that has a write-ahead log, SQLite needs files next to
    // it. A database without a log is opened as immutable, so that SQLite
    // creates no file; the caller ensures that nothing writes to it.
    let has_log = beside(file, "-wal").try_exists().map_err(failed)?;
    SqliteConnectOptions::new()
        .filename(file)
        .read_only(true)
        .immutable(!has_log)
        .disable_statement_logging()
        .connect()
        .await
        .map_err(failure::of)
}

/// Returns the path of the file next to `file` whose name is that of `file`
/// followed by `end`.
pub(super) fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}

pub(super) fn failed(error: io::Error) -> Error {
    Error::Failed(Box::new(error))
}
