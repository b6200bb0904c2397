//! The file and the connections to it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Row, Sqlite, SqliteConnection, SqlitePool};
use tempfile::NamedTempFile;
use tokio::sync::OwnedMutexGuard;
use tokio::time::sleep;

use super::group::{Group, Write};
use super::{SqliteOptions, failure, look};
use crate::bounds::MAX_LISTED;
use crate::error::{Error, Limit, Result};

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// Nobody but its owner reads what is in the file.
pub(super) const MODE: u32 = 0o600;

/// How soon a file that others are making is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// To what the log is cut back once it is in the database.
const LOG_BYTES: &str = "16777216";

/// How many KiB of pages the connection that writes holds, as SQLite wants it
/// written: what a large landing changes goes into the log once.
const WRITER_PAGES: &str = "-16384";

/// One statement with what is bound to it.
pub(super) type Statement<'a> = sqlx::query::Query<'a, Sqlite, sqlx::sqlite::SqliteArguments>;

#[derive(Debug)]
pub(super) struct Database {
    group: Group,
    readers: SqlitePool,
}

impl Database {
    pub(super) async fn open(file: &Path, options: &SqliteOptions) -> Result<Self> {
        make_private(file).map_err(|error| Error::Failed(Box::new(error)))?;
        let connect = SqliteConnectOptions::new()
            .filename(file)
            .busy_timeout(options.wait)
            .foreign_keys(true)
            .disable_statement_logging();
        let pool = SqlitePoolOptions::new()
            .max_connections(options.readers)
            .acquire_timeout(options.wait)
            // They last: nothing can come between a process and its file.
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false);
        let write = connect
            .clone()
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .pragma("journal_size_limit", LOG_BYTES)
            .pragma("cache_size", WRITER_PAGES)
            // What undoes one statement needs no file.
            .pragma("temp_store", "memory");
        let mut left = options.wait.as_millis() / AGAIN.as_millis();
        let mut writer = loop {
            match write.connect().await.map_err(failure::of) {
                // Nobody waits for the lock that turns a new file into one with a
                // log: SQLite fails at once when two want it.
                Err(Error::Busy) if left > 0 => {
                    left -= 1;
                    sleep(AGAIN).await;
                }
                connected => break connected?,
            }
        };
        keep_old(&mut writer, file).await?;
        migrate(&mut writer).await?;
        let readers = pool.connect_with(connect.read_only(true));
        let readers = readers.await.map_err(failure::of)?;
        let group = Group::new(writer, options.wait);
        Ok(Self { group, readers })
    }

    pub(super) async fn close(&self) {
        // The last connection to close empties the log: it must be able to write.
        self.readers.close().await;
        self.group.close().await;
    }

    /// Connections to read from. What was written before is seen.
    pub(super) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// A change that nobody else writes beside. Undone when dropped.
    pub(super) async fn write(&self) -> Result<Write> {
        self.group.write().await
    }

    /// The right to begin a large change, one at a time. See [`Group::large`].
    pub(super) async fn large(&self) -> Result<OwnedMutexGuard<()>> {
        self.group.large().await
    }

    /// A change of one statement; how many rows it changed.
    pub(super) async fn run(&self, statement: Statement<'_>) -> Result<u64> {
        let mut write = self.write().await?;
        let done = statement.execute(&mut *write).await.map_err(failure::of)?;
        write.commit().await?;
        Ok(done.rows_affected())
    }

    pub(super) async fn check(&self) -> Result<()> {
        sqlx::query("SELECT count(*) FROM settings")
            .fetch_one(&self.readers)
            .await
            .map_err(failure::of)?;
        self.write().await.map(drop)
    }
}

/// Keeps a copy of a database that [`migrate`] is about to change.
async fn keep_old(writer: &mut SqliteConnection, file: &Path) -> Result<()> {
    if !look::has_table(writer, "_sqlx_migrations").await? {
        return Ok(());
    }
    let select = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations");
    let version: Option<i64> = select.fetch_one(&mut *writer).await.map_err(failure::of)?;
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max();
    match version {
        Some(version) if Some(version) < newest => look::keep_copy(writer, file, version).await,
        _ => Ok(()),
    }
}

/// In one transaction: whoever comes second finds it done.
async fn migrate(writer: &mut SqliteConnection) -> Result<()> {
    let mut transaction = writer
        .begin_with("BEGIN IMMEDIATE")
        .await
        .map_err(failure::of)?;
    // Not `run`: a future that borrows a connection that way cannot change threads.
    MIGRATIONS
        .run_direct(None, &mut *transaction, false)
        .await
        .map_err(failure::of_migrating)?;
    transaction.commit().await.map_err(failure::of)
}

/// Makes the file if there is none. SQLite gives its log and its index the same
/// mode.
///
/// Never opens a file that is there: closing it would drop the locks that this
/// process's other connections have on it.
fn make_private(file: &Path) -> io::Result<()> {
    if !file.try_exists()? {
        let directory = file
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        // Only its owner reads it from the first moment on.
        let new = NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
        let new = new.into_temp_path();
        match new.persist_noclobber(file) {
            Ok(()) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.error),
        }
    }
    if fs::metadata(file)?.permissions().mode() & 0o777 != MODE {
        fs::set_permissions(file, Permissions::from_mode(MODE))?;
    }
    Ok(())
}

/// Refuses when `count` says that there are [`MAX_LISTED`] already.
pub(super) async fn check_room(
    connection: &mut SqliteConnection,
    count: Statement<'_>,
    which: Limit,
) -> Result<()> {
    let row: SqliteRow = count.fetch_one(connection).await.map_err(failure::of)?;
    let there: i64 = row.try_get(0).map_err(failure::of)?;
    if there >= i64::from(MAX_LISTED) {
        return Err(Error::LimitReached {
            which,
            limit: MAX_LISTED.into(),
        });
    }
    Ok(())
}
