//! The connections of this process to the host that is used now.
//!
//! No call waits for ever: a statement ends with an error when its host is lost,
//! and after a limit. Its connection is then dropped, since an answer could
//! still come. A caller that stops waiting leaves its statement to a task.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{
    PgConnectOptions, PgPoolOptions, PgQueryResult, PgRow, PgStatement, PgTypeInfo,
};
use sqlx::{
    Connection as _, Describe, Either, Execute, Executor, PgConnection, PgPool, Postgres, SqlStr,
};
use tokio::select;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Maximum time to close the connections to a lost host.
const CLOSING: Duration = Duration::from_secs(10);

/// SQLSTATEs of a statement that was prepared on another connection: it exists
/// although this one did not prepare it, or does not exist although this one did.
const OF_OTHERS: [&str; 2] = ["42P05", "26000"];

/// Returns advice if the error is that of a pooler that does not keep prepared
/// statements for each client.
pub fn forgets_statements(error: &sqlx::Error) -> Option<&'static str> {
    let code = error.as_database_error()?.code()?;
    OF_OTHERS.contains(&&*code).then_some(
        "the pooler in front of the database does not keep prepared statements for each client; \
         use PgBouncer 1.21 or newer with `max_prepared_statements`, or the URL of the database \
         itself",
    )
}

/// The bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of connections.
    pub connections: u32,
    /// Time after which a call that waits for a connection fails.
    pub wait: Duration,
    /// Time after which a statement without an answer fails; whether it changed
    /// something is then unknown.
    pub statement: Duration,
}

/// The connections to the present host. Each statement on the pool itself is a
/// transaction, and sees all that was committed before.
#[derive(Clone, Debug)]
pub struct Pool {
    current: Arc<watch::Sender<Current>>,
    limits: Limits,
}

#[derive(Clone, Debug)]
struct Current {
    /// `None` while no host is known.
    pool: Option<PgPool>,
    /// A change of this number ends the calls that began before it.
    period: u64,
}

/// A connection that a call holds.
pub struct Connection {
    /// `None` only while it is dropped.
    connection: Option<PoolConnection<Postgres>>,
    is_in_transaction: bool,
    end: End,
}

/// The reasons for which a statement ends without an answer.
#[derive(Clone)]
struct End {
    current: watch::Receiver<Current>,
    /// The period in which the connection was taken.
    period: u64,
    statement: Duration,
    /// Whether a statement waits for its answer, or nothing waits for it any
    /// more.
    is_waiting: bool,
    /// Whether a statement has ended so.
    has_ended: bool,
}

/// A transaction, which is rolled back if it is dropped.
#[derive(Debug)]
pub struct Change(Connection);

impl Pool {
    /// Returns a pool of connections to a host. Needs a Tokio runtime.
    pub fn new(host: PgConnectOptions, limits: Limits) -> Self {
        let nothing = Current {
            pool: None,
            period: 0,
        };
        let pool = Self {
            current: Arc::new(watch::Sender::new(nothing)),
            limits,
        };
        pool.use_host(host);
        pool
    }

    /// Uses only new connections to this host from now on, and ends the calls on
    /// the earlier ones.
    pub fn use_host(&self, host: PgConnectOptions) {
        self.replace(Some(self.connect(host)), true);
    }

    /// Uses only new connections to this host from now on. The calls on the
    /// earlier ones go on.
    pub fn use_new_connections(&self, host: PgConnectOptions) {
        self.replace(Some(self.connect(host)), false);
    }

    /// Ends all calls. Later ones wait for a host.
    pub fn forget_host(&self) {
        self.replace(None, true);
    }

    fn connect(&self, host: PgConnectOptions) -> PgPool {
        PgPoolOptions::new()
            .max_connections(self.limits.connections)
            .acquire_timeout(self.limits.wait)
            // Would cost each call a round trip.
            .test_before_acquire(false)
            .connect_lazy_with(host)
    }

    fn replace(&self, pool: Option<PgPool>, ends_calls: bool) {
        let mut earlier = pool;
        self.current.send_modify(|current| {
            std::mem::swap(&mut current.pool, &mut earlier);
            current.period += u64::from(ends_calls);
        });
        if let Some(earlier) = earlier {
            tokio::spawn(async move { timeout(CLOSING, earlier.close()).await });
        }
    }

    /// Waits for the calls and closes the connections. Later calls fail.
    pub async fn close(&self) {
        let current = self.current.borrow().pool.clone();
        if let Some(pool) = current {
            pool.close().await;
        }
    }

    /// Returns a connection, for a call of several statements.
    pub async fn acquire(&self) -> sqlx::Result<Connection> {
        let acquired = timeout(self.limits.wait, self.acquire_of_present_host()).await;
        acquired.map_err(|_| sqlx::Error::PoolTimedOut)?
    }

    async fn acquire_of_present_host(&self) -> sqlx::Result<Connection> {
        let mut current = self.current.subscribe();
        loop {
            let known = current.wait_for(|current| current.pool.is_some()).await;
            let known = known.map_err(|_| sqlx::Error::PoolClosed)?.clone();
            let pool = known.pool.ok_or(sqlx::Error::PoolClosed)?;
            let connection = select! {
                biased;
                _ = current.changed() => {
                    // `wait_for` looks at this value too.
                    current.mark_changed();
                    continue;
                }
                connection = pool.acquire() => connection?,
            };
            return Ok(Connection {
                connection: Some(connection),
                is_in_transaction: false,
                end: End {
                    current,
                    period: known.period,
                    statement: self.limits.statement,
                    is_waiting: false,
                    has_ended: false,
                },
            });
        }
    }

    /// Begins a transaction with this statement.
    pub async fn begin(&self, statement: &'static str) -> sqlx::Result<Change> {
        let mut connection = self.acquire().await?;
        connection.is_in_transaction = true;
        connection.execute(statement).await?;
        Ok(Change(connection))
    }
}

impl Change {
    /// Commits the transaction.
    pub async fn commit(mut self) -> sqlx::Result<()> {
        self.0.execute("COMMIT").await?;
        self.0.is_in_transaction = false;
        Ok(())
    }
}

impl Deref for Change {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Change {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}

impl Connection {
    fn parts(&mut self) -> sqlx::Result<(&mut PgConnection, &mut End)> {
        match &mut self.connection {
            Some(open) if !self.end.has_ended => Ok((open, &mut self.end)),
            _ => Err(sqlx::Error::PoolClosed),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(open) = self.connection.take() else {
            return;
        };
        if self.end.has_ended {
            // Without a word to the host, which might not take it.
            drop(open.detach());
        } else if self.is_in_transaction || self.end.is_waiting {
            let settling = Self {
                connection: Some(open),
                is_in_transaction: false,
                end: End {
                    is_waiting: false,
                    ..self.end.clone()
                },
            };
            tokio::spawn(settling.settle(self.is_in_transaction));
        }
    }
}

impl Connection {
    /// Waits for the statement that nothing waits for any more, and ends the
    /// transaction. The connection is dropped if one of them fails: after the
    /// error of the statement, the transaction may not have ended.
    async fn settle(mut self, is_in_transaction: bool) {
        let settled = match (is_in_transaction, &mut self.connection) {
            (true, _) => self.execute("ROLLBACK").await.map(drop),
            (false, Some(open)) => self.end.limit(open.ping()).await,
            (false, None) => Ok(()),
        };
        self.end.has_ended |= settled.is_err();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl End {
    /// Waits for an answer until the host is lost, or the limit is reached.
    async fn limit<T>(&mut self, answer: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
        self.is_waiting = true;
        let period = self.period;
        let reason = select! {
            biased;
            answer = answer => {
                self.is_waiting = false;
                return answer;
            }
            _ = self.current.wait_for(|current| current.period != period) => {
                "the host of the database was lost"
            }
            () = sleep(self.statement) => "the database did not answer in time",
        };
        self.has_ended = true;
        Err(io::Error::new(io::ErrorKind::TimedOut, reason).into())
    }
}

type Step = Either<PgQueryResult, PgRow>;

impl<'c> Executor<'c> for &'c mut Connection {
    type Database = Postgres;

    fn execute<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<PgQueryResult>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(async move {
            let (open, end) = self.parts()?;
            end.limit(open.execute(query)).await
        })
    }

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Step>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let (open, end) = match self.parts() {
            Ok(parts) => parts,
            Err(error) => return stream::once(async { Err(error) }).boxed(),
        };
        let steps = (open.fetch_many(query), end);
        stream::try_unfold(steps, async |(mut steps, end)| {
            let next = end.limit(steps.try_next()).await?;
            // More may come after a row.
            end.is_waiting = next.is_some();
            Ok(next.map(|step| (step, (steps, end))))
        })
        .boxed()
    }

    fn fetch_all<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Vec<PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(async move {
            let (open, end) = self.parts()?;
            end.limit(open.fetch_all(query)).await
        })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(async move {
            let (open, end) = self.parts()?;
            end.limit(open.fetch_optional(query)).await
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'c: 'e,
    {
        Box::pin(async move {
            let (open, end) = self.parts()?;
            end.limit(open.prepare_with(sql, parameters)).await
        })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<Postgres>>>
    where
        'c: 'e,
    {
        Box::pin(async move {
            let (open, end) = self.parts()?;
            end.limit(open.describe(sql)).await
        })
    }
}

impl<'p> Executor<'p> for &Pool {
    type Database = Postgres;

    fn execute<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<PgQueryResult>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.execute(query).await })
    }

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Step>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        let steps = async move {
            let mut connection = pool.acquire().await?;
            let steps: Vec<Step> = connection.fetch_many(query).try_collect().await?;
            let steps = steps.into_iter().map(Ok::<_, sqlx::Error>);
            Ok::<_, sqlx::Error>(stream::iter(steps))
        };
        stream::once(steps).try_flatten().boxed()
    }

    fn fetch_all<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Vec<PgRow>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.fetch_all(query).await })
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.fetch_optional(query).await })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.prepare_with(sql, parameters).await })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<Postgres>>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.describe(sql).await })
    }
}
