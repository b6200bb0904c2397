//! Copies of a catalog's file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sqlx::{Connection, SqliteConnection};
use tempfile::NamedTempFile;

use super::failure;
use super::found::{beside, connect_to_read, failed};
use crate::error::{Error, Result};

/// The mode of the file: only its owner may read and write it.
pub(super) const MODE: u32 = 0o600;

/// Copies the catalog in `file`, of any format, to `to`, where no file may exist.
/// The copy is of one moment, and synced when this returns; its directory entry
/// is not.
pub(super) async fn copy(file: &Path, to: &Path) -> Result<()> {
    let mut connection = connect_to_read(file).await?;
    let copied = copy_from(&mut connection, to).await;
    connection.close().await.map_err(failure::of)?;
    copied
}

/// Copies the database of a connection as [`copy`] does. The connection must not be
/// in a transaction.
pub(super) async fn copy_from(connection: &mut SqliteConnection, to: &Path) -> Result<()> {
    let mut create = OpenOptions::new();
    create.write(true).create_new(true).mode(MODE);
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
