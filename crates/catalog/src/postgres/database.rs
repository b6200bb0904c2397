//! The connections to the database.

use parking_lot::Mutex;
use sqlx::postgres::{PgArguments, PgPoolOptions, PgRow};
use sqlx::{PgConnection, PgPool, Postgres, Row, Transaction};
use tokio::time::Instant;

use super::deferred::{self, DEFERRED, Deferred};
use super::follower::{Follower, Opened, ValidSince};
use super::hosts::{Hosts, Writable};
use super::migrations::{MIGRATIONS, migrate};
use super::options::{PostgresOptions, read_hosts};
use super::{failure, found};
use crate::error::{Error, Limit, Result};
use crate::limits::MAX_LISTED;

/// A statement with its bound values.
pub(super) type Statement<'a> = sqlx::query::Query<'a, Postgres, PgArguments>;

#[derive(Debug)]
pub(super) struct Database {
    pool: PgPool,
    follower: Follower,
    /// `None` if there was nothing to do when the catalog was opened.
    deferred: Option<Deferred>,
}

impl Database {
    pub(super) async fn open(url: &str, options: &PostgresOptions) -> Result<Self> {
        let hosts = match options.is_pooled {
            true => Hosts::read_pooled(url)?,
            false => read_hosts(url, options.wait)?,
        };
        let read = |url| read_hosts(url, options.wait);
        let direct = options.direct.as_deref().map(read).transpose()?;
        let Writable { host, connection } = hosts.writable().await?;
        if options.is_pooled {
            // The statements of another client have the same names.
            hosts.writable().await?;
        }
        let mut connection = match &direct {
            None => Writable {
                host: host.clone(),
                connection,
            },
            Some(direct) => direct.writable().await?,
        };
        found::format(&mut connection.connection).await?;
        migrate(&mut connection.connection, &MIGRATIONS).await?;
        let is_missing = deferred::is_any_missing(&mut connection.connection, &DEFERRED).await?;
        let deferred =
            is_missing.then(|| Deferred::start(direct.clone().unwrap_or_else(|| hosts.clone())));
        let valid_since = ValidSince::new(Mutex::new(Instant::now()));
        let pool = pool_options(options, &valid_since).connect_lazy_with(host);
        let follower = Follower::start(Opened {
            hosts,
            direct,
            pool: pool.clone(),
            valid_since,
            connection,
        });
        Ok(Self {
            pool,
            follower,
            deferred,
        })
    }

    pub(super) async fn close(&self) {
        self.follower.stop();
        if let Some(deferred) = &self.deferred {
            deferred.stop();
        }
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

    /// Commits a change.
    pub(super) async fn commit(&self, transaction: Transaction<'static, Postgres>) -> Result<()> {
        transaction.commit().await.map_err(failure::of)?;
        self.follower.note_change();
        Ok(())
    }

    /// Runs one statement as a change; returns the number of changed rows.
    pub(super) async fn run(&self, statement: Statement<'_>) -> Result<u64> {
        let done = statement.execute(&self.pool).await.map_err(failure::of)?;
        Ok(done.rows_affected())
    }

    pub(super) fn follower(&self) -> &Follower {
        &self.follower
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

fn pool_options(options: &PostgresOptions, valid_since: &ValidSince) -> PgPoolOptions {
    let valid_since = ValidSince::clone(valid_since);
    PgPoolOptions::new()
        .max_connections(options.connections)
        .acquire_timeout(options.wait)
        // Would cost each call a round trip.
        .test_before_acquire(false)
        .before_acquire(move |_, connection| {
            let is_valid = connection.age <= valid_since.lock().elapsed();
            Box::pin(async move { Ok(is_valid) })
        })
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
