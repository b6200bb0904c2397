//! The connections to the database.

use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::{ConnectOptions, PgConnection, PgPool, Postgres, Row, Transaction};

use super::failure;
use crate::error::{Error, Limit, Result};
use crate::limits::MAX_LISTED;

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// A statement with its bound values.
pub(super) type Statement<'a> = sqlx::query::Query<'a, Postgres, PgArguments>;

/// Options for opening a catalog in PostgreSQL.
#[derive(Clone, Copy, Debug)]
pub struct PostgresOptions {
    /// Maximum number of connections of this process.
    pub connections: u32,
    /// Time after which a call that waits for a connection, or a statement that
    /// waits for a lock, fails with `Busy`.
    pub wait: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connections: 16,
            wait: Duration::from_secs(10),
        }
    }
}

#[derive(Debug)]
pub(super) struct Database {
    pool: PgPool,
}

impl Database {
    pub(super) async fn open(url: &str, options: &PostgresOptions) -> Result<Self> {
        let wait = options.wait.as_millis().to_string();
        let connect = url
            .parse::<PgConnectOptions>()
            .map_err(|error| Error::Refused(format!("the URL of the catalog: {error}")))?
            .application_name("elevo")
            // One value for each would also be valid for a statement that only
            // computes, and none of ours does so for that long.
            .options([
                ("lock_timeout", wait.as_str()),
                ("idle_in_transaction_session_timeout", wait.as_str()),
            ])
            .disable_statement_logging();
        let pool = PgPoolOptions::new()
            .max_connections(options.connections)
            .acquire_timeout(options.wait)
            // Would cost each call a round trip.
            .test_before_acquire(false)
            .connect_with(connect)
            .await
            .map_err(failure::of)?;
        MIGRATIONS.run(&pool).await.map_err(failure::of_migrating)?;
        Ok(Self { pool })
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// The connections. Each statement on them is a transaction, and sees all
    /// that was committed before.
    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Begins a change. The change is rolled back if it is dropped.
    pub(super) async fn write(&self) -> Result<Transaction<'static, Postgres>> {
        self.pool.begin().await.map_err(failure::of)
    }

    /// Begins a transaction whose reads are all of one moment.
    pub(super) async fn moment(&self) -> Result<Transaction<'static, Postgres>> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.pool.begin_with(begin).await.map_err(failure::of)
    }

    /// Runs one statement as a change; returns the number of changed rows.
    pub(super) async fn run(&self, statement: Statement<'_>) -> Result<u64> {
        let done = statement.execute(&self.pool).await.map_err(failure::of)?;
        Ok(done.rows_affected())
    }

    /// Checks that the database can be read and written.
    pub(super) async fn check(&self) -> Result<()> {
        // `false` for a standby, and for a primary that was set to read only.
        let writable: bool =
            sqlx::query_scalar("SELECT current_setting('transaction_read_only') = 'off'")
                .fetch_one(&self.pool)
                .await
                .map_err(failure::of)?;
        match writable {
            true => Ok(()),
            false => Err(Error::Busy),
        }
    }
}

/// Commits a change.
pub(super) async fn commit(transaction: Transaction<'static, Postgres>) -> Result<()> {
    transaction.commit().await.map_err(failure::of)
}

/// Fails if `count` finds [`MAX_LISTED`] or more records. The caller must hold
/// a lock that orders it with other callers that add such records.
pub(super) async fn check_max_listed(
    connection: &mut PgConnection,
    count: Statement<'_>,
    which: Limit,
) -> Result<()> {
    let row: PgRow = count.fetch_one(connection).await.map_err(failure::of)?;
    let count: i64 = row.try_get(0).map_err(failure::of)?;
    if count >= i64::from(MAX_LISTED) {
        return Err(Error::LimitReached {
            which,
            limit: MAX_LISTED.into(),
        });
    }
    Ok(())
}

/// Takes the lock that orders additions of tenants, of templates, and of
/// sandboxes with a limit for the server.
pub(super) async fn lock_server(connection: &mut PgConnection) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock(5, 0)")
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}
