//! Each lock and each constraint that orders changes, with a test that fails
//! without it. `docs/decisions/0052` has the table.
//!
//! Two calls must meet in every run, so a [`Gate`] holds up the first one:
//!
//! ```text
//! first    ── does its work, holds its locks ──┤ waits at the gate ├─ commits ──►
//! second                                        ── begins ─┤ waits ├─ goes on ─►
//!                                                         the gate opens
//! ```
//!
//! The second call waits for the lock of the first, or at the gate as well if that
//! lock is missing. The gate opens in both cases, and the results differ.

mod events;
mod limits;
mod projects;
mod rows;

use std::pin::pin;
use std::time::Duration;

use elevo_testkit::wait;
use futures::FutureExt;
use futures::future::{Either, join, select};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::Temporary;
use crate::postgres::{PostgresCatalog, PostgresOptions};

/// The lock of the gate is of the class 9, which the catalog does not use.
const FUNCTION: &str = "CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$ \
     BEGIN PERFORM pg_advisory_xact_lock_shared(9, 0); RETURN NULL; END $$";

/// The connections that wait for a lock. Background tasks number events, and can
/// wait for each other.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity \
     WHERE datname = current_database() AND wait_event_type = 'Lock' \
     AND query NOT LIKE 'SELECT number_events_1%'";

/// Holds up every transaction that has changed certain tables when it commits:
/// it has done all its work and has all its locks.
struct Gate(PgConnection);

impl Gate {
    /// Closes a gate for the transactions that add or change rows of these tables.
    async fn close(temporary: &Temporary, tables: &[&str]) -> Self {
        let mut gate = Self(PgConnection::connect(&temporary.0.url()).await.unwrap());
        gate.run(FUNCTION.to_owned()).await;
        for table in tables {
            gate.run(format!(
                "CREATE CONSTRAINT TRIGGER gate AFTER INSERT OR UPDATE ON {table} \
                 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_gate()"
            ))
            .await;
        }
        gate.run("SELECT pg_advisory_lock(9, 0)".to_owned()).await;
        gate
    }

    /// Begins the second call when the first one waits at the gate. Opens the
    /// gate when the second one waits too, or has ended.
    async fn meet<A, B>(
        mut self,
        first: impl Future<Output = A>,
        second: impl Future<Output = B>,
    ) -> (A, B) {
        let second = async {
            self.wait_for(1).await;
            let mut second = pin!(second.fuse());
            let ended = match select(&mut second, pin!(self.wait_for(2))).await {
                Either::Left((ended, _)) => Some(ended),
                Either::Right(((), _)) => None,
            };
            self.run("SELECT pg_advisory_unlock(9, 0)".to_owned()).await;
            match ended {
                Some(ended) => ended,
                None => second.await,
            }
        };
        join(first, second).await
    }

    /// Waits until this number of connections wait for locks.
    async fn wait_for(&mut self, count: i64) {
        let what = format!("{count} connections wait for locks");
        wait::until_async(&what, async || {
            let waiting = sqlx::query_scalar(WAITING).fetch_one(&mut self.0);
            let waiting: i64 = waiting.await.unwrap();
            (waiting >= count).then_some(())
        })
        .await;
    }

    async fn run(&mut self, statement: String) {
        let ran = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut self.0);
        ran.await.unwrap();
    }
}

impl Temporary {
    /// Opens the catalog with calls that wait for locks longer than any test
    /// runs.
    async fn open_patiently(&self) -> PostgresCatalog {
        let options = PostgresOptions {
            wait: Duration::from_secs(600),
            ..PostgresOptions::default()
        };
        PostgresCatalog::open(&self.0.url(), &options)
            .await
            .unwrap()
    }
}
