//! Reads a catalog's file without changing it, and copies it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tempfile::NamedTempFile;

use super::{database, failure};
use crate::error::{Error, Result};

/// The setting with the id of the installation.
pub const INSTALLATION: &str = "installation";
/// The setting with the generation of the catalog, a number that only grows.
pub const GENERATION: &str = "generation";

/// The setting that is `yes` while a start adopts parts that do not match.
pub const ADOPTING: &str = "adopting";

const HAS_TENANTS: &str = "SELECT EXISTS (SELECT 1 FROM tenants)";
const HAS_SANDBOXES: &str = "SELECT EXISTS (SELECT 1 FROM sandboxes)";
const HAS_WORKSPACES: &str = "SELECT EXISTS (SELECT 1 FROM workspaces)";

/// A catalog's file as it is found before a server opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundCatalog {
    /// The id of the installation it belongs to.
    pub installation: Option<String>,
    /// Its generation; 0 if it never had one.
    pub generation: u64,
    /// Whether a start that adopts parts that do not match was interrupted.
    pub is_adopting: bool,
    /// Whether it has a tenant.
    pub has_tenants: bool,
    /// Whether it has a sandbox or a workspace.
    pub has_workspaces: bool,
}

impl FoundCatalog {
    /// Returns whether no server has ever used it.
    pub fn is_unused(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads `file` without changing or migrating it. Returns `None` if there is no
/// such file.
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
    if !has_table(connection, "settings").await? {
        return Ok(FoundCatalog::default());
    }
    let generation = setting(connection, GENERATION).await?;
    let generation = generation.map(|text| {
        let damaged = || Error::Damaged(format!("`{text}` is not a generation"));
        text.parse().map_err(|_| damaged())
    });
    let adopting = setting(connection, ADOPTING).await?;
    let has_sandboxes = has_row(connection, "sandboxes", HAS_SANDBOXES).await?;
    let has_workspaces = has_row(connection, "workspaces", HAS_WORKSPACES).await?;
    Ok(FoundCatalog {
        installation: setting(connection, INSTALLATION).await?,
        generation: generation.transpose()?.unwrap_or(0),
        is_adopting: adopting.as_deref() == Some("yes"),
        has_tenants: has_row(connection, "tenants", HAS_TENANTS).await?,
        has_workspaces: has_sandboxes || has_workspaces,
    })
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

async fn connect_to_read(file: &Path) -> Result<SqliteConnection> {
    // SQLite creates files next to a database that has a write-ahead log. A
    // database without one can be opened as immutable: the caller keeps writers
    // away.
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

/// Copies the catalog in `file`, of any format, to `to`, where no file may exist.
/// The copy is of one moment, and synced when this returns; its directory entry
/// is not.
pub(super) async fn copy(file: &Path, to: &Path) -> Result<()> {
    let mut connection = connect_to_read(file).await?;
    let copied = copy_from(&mut connection, to).await;
    connection.close().await.map_err(failure::of)?;
    copied
}

/// Copies the database of a connection that is not in a transaction, likewise.
pub(super) async fn copy_from(connection: &mut SqliteConnection, to: &Path) -> Result<()> {
    let mut create = OpenOptions::new();
    create.write(true).create_new(true).mode(database::MODE);
    drop(create.open(to).map_err(failed)?);
    fill(connection, to).await
}

/// Copies a database into an empty file, which keeps its mode.
async fn fill(connection: &mut SqliteConnection, empty: &Path) -> Result<()> {
    let not_text = || Error::Refused(format!("{} is not text", empty.display()));
    let name = empty.to_str().ok_or_else(not_text)?;
    let copied = sqlx::query("VACUUM INTO ?").bind(name);
    copied.execute(connection).await.map_err(failure::of)?;
    let synced = File::open(empty).and_then(|file| file.sync_all());
    synced.map_err(failed)
}

/// Keeps a copy of a catalog of version `version` next to it, before a newer
/// program migrates it. Replaces an earlier copy of the same version.
pub(super) async fn keep_copy(
    connection: &mut SqliteConnection,
    file: &Path,
    version: i64,
) -> Result<()> {
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let copy = NamedTempFile::new_in(directory).map_err(failed)?;
    let copy = copy.into_temp_path();
    fill(connection, &copy).await?;
    let kept = beside(file, &format!(".version-{version}"));
    copy.persist(kept).map_err(|error| failed(error.error))?;
    let synced = File::open(directory).and_then(|it| it.sync_all());
    synced.map_err(failed)
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn failed(error: io::Error) -> Error {
    Error::Failed(Box::new(error))
}
