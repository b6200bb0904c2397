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

use super::copies::{self, MODE};
use super::write_queue::{Change, WriteQueue};
use super::{failure, found};
use crate::error::{Error, Limit, Result};
use crate::limits::MAX_LISTED;

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// Delay before another attempt to open a file that another process is
/// creating.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// Size in bytes that the write-ahead log is truncated to after a checkpoint.
const LOG_BYTES: &str = "16777216";

/// Page cache of the writing connection: 16 MiB, in SQLite's notation for KiB. A
/// page that a large landing changes several times goes into the log once.
const WRITER_PAGES: &str = "-16384";

/// A statement with its bound values.
pub(super) type Statement<'a> = sqlx::query::Query<'a, Sqlite, sqlx::sqlite::SqliteArguments>;

/// Options for opening a catalog in a file.
#[derive(Clone, Copy, Debug)]
pub struct SqliteOptions {
    /// Number of connections that read.
    pub readers: u32,
    /// Time after which a waiting call fails with `Busy`. A call can wait
    /// twice: first for a connection, then for other processes.
    pub wait: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            readers: 4,
            wait: Duration::from_secs(10),
        }
    }
}

#[derive(Debug)]
pub(super) struct Database {
    queue: WriteQueue,
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
            // Connections stay open: a connection to a local file does not go
            // stale.
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false);
        let write = connect
            .clone()
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .pragma("journal_size_limit", LOG_BYTES)
            .pragma("cache_size", WRITER_PAGES)
            // Keeps the journal of a single statement in memory instead of a
            // file.
            .pragma("temp_store", "memory");
        let mut left = options.wait.as_millis() / RETRY_DELAY.as_millis();
        let mut writer = loop {
            match write.connect().await.map_err(failure::of) {
                // SQLite does not wait for the lock that switches a new file to
                // WAL: it fails at once if two connections want it.
                Err(Error::Busy) if left > 0 => {
                    left -= 1;
                    sleep(RETRY_DELAY).await;
                }
                connected => break connected?,
            }
        };
        copy_before_migrating(&mut writer, file).await?;
        migrate(&mut writer).await?;
        let readers = pool.connect_with(connect.read_only(true));
        let readers = readers.await.map_err(failure::of)?;
        let queue = WriteQueue::new(writer, options.wait);
        Ok(Self { queue, readers })
    }

    pub(super) async fn close(&self) {
        // The writer is closed last: the last connection empties the log, which
        // needs write access.
        self.readers.close().await;
        self.queue.close().await;
    }

    /// The connections for reads. They see everything that was committed before.
    pub(super) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// Begins a change, with no concurrent writer. The change is rolled back if
    /// it is dropped.
    pub(super) async fn write(&self) -> Result<Change> {
        self.queue.write().await
    }

    /// Waits until no other large change is waiting or running. See
    /// [`WriteQueue::large`].
    pub(super) async fn large(&self) -> Result<OwnedMutexGuard<()>> {
        self.queue.large().await
    }

    /// Runs one statement as a change; returns the number of changed rows.
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
async fn copy_before_migrating(writer: &mut SqliteConnection, file: &Path) -> Result<()> {
    match found::format(writer).await? {
        Some(version) if version < newest_format() => {
            copies::keep_copy(writer, file, version).await
        }
        _ => Ok(()),
    }
}

/// Returns the format that this version migrates a catalog to.
pub(super) fn newest_format() -> i64 {
    let versions = MIGRATIONS.iter().map(|migration| migration.version);
    versions.max().unwrap_or_default()
}

/// Migrates the database in one transaction, so that a second process waits and
/// then finds the migrations done.
async fn migrate(writer: &mut SqliteConnection) -> Result<()> {
    let mut transaction = writer
        .begin_with("BEGIN IMMEDIATE")
        .await
        .map_err(failure::of)?;
    // Not `run`: the future would borrow the connection in a way that is not
    // `Send`.
    MIGRATIONS
        .run_direct(None, &mut *transaction, false)
        .await
        .map_err(failure::of_migrating)?;
    transaction.commit().await.map_err(failure::of)
}

/// Creates the file if there is none, and makes sure that only its owner can
/// read it. SQLite gives the log of the file, and the index of the log, the
/// same mode.
///
/// Never opens an existing file: closing it would release the locks that other
/// connections of this process hold on it.
fn make_private(file: &Path) -> io::Result<()> {
    if !file.try_exists()? {
        let directory = file
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        // A temporary file is private to its owner from the first moment on.
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

/// Fails if `count` finds [`MAX_LISTED`] or more records.
pub(super) async fn check_max_listed(
    connection: &mut SqliteConnection,
    count: Statement<'_>,
    which: Limit,
) -> Result<()> {
    let row: SqliteRow = count.fetch_one(connection).await.map_err(failure::of)?;
    let count: i64 = row.try_get(0).map_err(failure::of)?;
    if count >= i64::from(MAX_LISTED) {
        return Err(Error::LimitReached {
            which,
            limit: MAX_LISTED.into(),
        });
    }
    Ok(())
}
