//! The connections to the database.

use elevo_postgres::{Change, Connection, Hosts, Places, Pool};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Postgres, Row};

use super::deferred::{self, DEFERRED, Deferred};
use super::follower::Follower;
use super::migrations::{MIGRATIONS, migrate};
use super::options::{PostgresOptions, invalid, none_writable};
use super::{failure, found};
use crate::error::{Error, Limit, Result};
use crate::limits::MAX_LISTED;

/// A statement with its bound values.
pub(super) type Statement<'a> = sqlx::query::Query<'a, Postgres, PgArguments>;

#[derive(Debug)]
pub(super) struct Database {
    pool: Pool,
    follower: Follower,
    /// `None` if there was nothing to do when the catalog was opened.
    deferred: Option<Deferred>,
}

impl Database {
    pub(super) async fn open(url: &str, options: &PostgresOptions) -> Result<Self> {
        let hosts = match options.is_pooled {
            true => Hosts::read_pooled(url).map_err(invalid)?,
            false => options.read_hosts(url)?,
        };
        let read = |url| options.read_hosts(url);
        let direct = options.direct.as_deref().map(read).transpose()?;
        if options.is_pooled {
            // The statements of another client have the same names.
            hosts.writable().await.map_err(none_writable)?;
        }
        let places = Places { hosts, direct };
        let mut chosen = places.choose().await.map_err(none_writable)?;
        let connection = chosen.connection();
        found::format(connection).await?;
        migrate(connection, &MIGRATIONS).await?;
        let is_missing = deferred::is_any_missing(connection, &DEFERRED).await?;
        let deferred = is_missing.then(|| Deferred::start(places.direct().clone()));
        let pool = Pool::new(chosen.host().clone(), options.limits());
        let follower = Follower::start(places, chosen, pool.clone(), options);
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
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Begins a change. The change is rolled back if it is dropped.
    pub(super) async fn write(&self) -> Result<Change> {
        self.pool.begin("BEGIN").await.map_err(failure::of)
    }

    /// Begins a transaction whose reads are all of one moment.
    pub(super) async fn moment(&self) -> Result<Change> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.pool.begin(begin).await.map_err(failure::of)
    }

    /// Commits a change.
    pub(super) async fn commit(&self, change: Change) -> Result<()> {
        change.commit().await.map_err(failure::of)?;
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

/// Fails if `count` finds [`MAX_LISTED`] or more records. The caller must hold
/// a lock that orders it with other callers that add such records.
pub(super) async fn check_max_listed(
    connection: &mut Connection,
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
pub(super) async fn lock_server(connection: &mut Connection) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock(5, 0)")
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}
