//! The connections to the database.

use std::time::Duration;

use parking_lot::Mutex;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgArguments, PgPoolOptions, PgRow};
use sqlx::{PgConnection, PgPool, Postgres, Row, Transaction};
use tokio::time::{Instant, sleep};

use super::deferred::{self, DEFERRED, Deferred};
use super::follower::{Follower, Opened, ValidSince};
use super::hosts::{Hosts, Writable};
use super::{failure, found};
use crate::error::{Error, Limit, Result};
use crate::limits::MAX_LISTED;

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// Maximum time that a migration waits for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Time in which the calls that waited behind a migration go on.
const RETRY: Duration = Duration::from_millis(200);

/// Maximum number of times that migrations are attempted.
const MAX_ATTEMPTS: u32 = 60;

/// A statement with its bound values.
pub(super) type Statement<'a> = sqlx::query::Query<'a, Postgres, PgArguments>;

/// Options for opening a catalog in PostgreSQL.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Maximum number of connections of this process for its calls. Two more
    /// follow the events and the host.
    pub connections: u32,
    /// Time after which a call that waits for a connection, or a statement that
    /// waits for a lock, fails with `Busy`.
    pub wait: Duration,
    /// Another URL of the same database for notifications, which reach only a
    /// connection that stays with its client.
    pub direct: Option<String>,
    /// Whether the URL is that of a pooler in transaction mode. Such a pooler
    /// keeps neither prepared statements nor settings of a connection.
    pub is_pooled: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connections: 16,
            wait: Duration::from_secs(10),
            direct: None,
            is_pooled: false,
        }
    }
}

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

pub(super) fn read_hosts(url: &str, wait: Duration) -> Result<Hosts> {
    let wait = wait.as_millis().to_string();
    // One value for each would also be valid for a statement that only computes,
    // and none of ours does so for that long.
    let options = [
        ("lock_timeout", wait.as_str()),
        ("idle_in_transaction_session_timeout", wait.as_str()),
    ];
    Hosts::read(url, &options)
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

/// Runs the migrations that the catalog needs. A migration that waits for a lock
/// blocks the calls of other servers that come after it, so it gives up soon and
/// is repeated.
pub(super) async fn migrate(connection: &mut PgConnection, migrations: &Migrator) -> Result<()> {
    set_lock_timeout(connection, LOCK_TIMEOUT).await?;
    let mut attempt = 1;
    let migrated = loop {
        let migrated = migrations.run_direct(None, &mut *connection, false).await;
        let migrated = migrated.map_err(failure::of_migrating);
        if migrated.is_ok() {
            break migrated;
        }
        // `sqlx` keeps its lock after a failure, which would block the other
        // servers.
        let unlock = sqlx::query("SELECT pg_advisory_unlock_all()");
        unlock
            .execute(&mut *connection)
            .await
            .map_err(failure::of)?;
        if attempt == MAX_ATTEMPTS || !matches!(migrated, Err(Error::Busy)) {
            break migrated;
        }
        attempt += 1;
        sleep(RETRY).await;
    };
    migrated?;
    let reset = sqlx::query("RESET lock_timeout").execute(connection).await;
    reset.map(drop).map_err(failure::of)
}

/// Sets the time after which a statement of this connection that waits for a lock
/// fails; zero for no limit.
pub(super) async fn set_lock_timeout(
    connection: &mut PgConnection,
    timeout: Duration,
) -> Result<()> {
    let set = sqlx::query("SELECT set_config('lock_timeout', $1, false)")
        .bind(timeout.as_millis().to_string())
        .execute(connection)
        .await;
    set.map(drop).map_err(failure::of)
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
