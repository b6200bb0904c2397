//! Migrations that one server runs in the background: indexes, which are created
//! without blocking writes. `migrations/postgres-deferred` has one statement in
//! each file, named after its index.

use std::time::Duration;

use elevo_postgres::Hosts;
use sqlx::migrate::{Migration, Migrator};
use sqlx::{AssertSqlSafe, PgConnection};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::failure;
use super::migrations::set_lock_timeout;
use super::options::none_writable;
use crate::error::Result;

pub(super) static DEFERRED: Migrator = sqlx::migrate!("migrations/postgres-deferred");

/// Time until a server looks again after a failure, or while another server
/// creates the indexes.
const PAUSE: Duration = Duration::from_secs(60);

/// Returns NULL for an unknown index.
const IS_VALID: &str =
    "SELECT (SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1))";

/// A lock of the session, because the statement cannot be in a transaction. It
/// ends with the connection. A server that waited for it would have a statement
/// that runs, and the creation of an index waits for those.
const TRY_LOCK: &str = "SELECT pg_try_advisory_lock(6, 0)";

const UNLOCK: &str = "SELECT pg_advisory_unlock(6, 0)";

/// The task that creates the indexes.
#[derive(Debug)]
pub(super) struct Deferred(JoinHandle<()>);

impl Deferred {
    /// Starts the task. The hosts must not be behind a pooler.
    pub(super) fn start(hosts: Hosts) -> Self {
        Self(tokio::spawn(create_always(hosts)))
    }

    pub(super) fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn create_always(hosts: Hosts) {
    loop {
        match connect_and_create(&hosts).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot create the indexes of the catalog; trying again later");
            }
        }
        sleep(PAUSE).await;
    }
}

async fn connect_and_create(hosts: &Hosts) -> Result<bool> {
    let mut connection = hosts.writable().await.map_err(none_writable)?.connection;
    create(&mut connection, &DEFERRED).await
}

/// Creates the indexes that are missing. Returns `false` if another server
/// creates them.
pub(super) async fn create(connection: &mut PgConnection, indexes: &Migrator) -> Result<bool> {
    if !is_any_missing(connection, indexes).await? {
        return Ok(true);
    }
    let lock = sqlx::query_scalar(TRY_LOCK).fetch_one(&mut *connection);
    let is_locked: bool = lock.await.map_err(failure::of)?;
    if !is_locked {
        return Ok(false);
    }
    // The creation waits for every transaction that has begun before it.
    set_lock_timeout(connection, Duration::ZERO).await?;
    for index in indexes.iter() {
        create_one(connection, index).await?;
    }
    run(connection, UNLOCK).await?;
    Ok(true)
}

pub(super) async fn is_any_missing(
    connection: &mut PgConnection,
    indexes: &Migrator,
) -> Result<bool> {
    for index in indexes.iter() {
        if is_valid(connection, &name(index)).await? != Some(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn create_one(connection: &mut PgConnection, index: &Migration) -> Result<()> {
    let name = name(index);
    match is_valid(connection, &name).await? {
        Some(true) => return Ok(()),
        // Its creation has failed, or its server has died.
        Some(false) => run(connection, format!("DROP INDEX CONCURRENTLY {name}")).await?,
        None => {}
    }
    run(connection, index.sql.as_str()).await?;
    tracing::info!(index = name, "created an index of the catalog");
    Ok(())
}

/// Returns the name of the index that a file creates.
pub(super) fn name(index: &Migration) -> String {
    // `sqlx` has replaced the underscores of the file's name.
    index.description.replace(' ', "_")
}

async fn is_valid(connection: &mut PgConnection, name: &str) -> Result<Option<bool>> {
    let select = sqlx::query_scalar(IS_VALID).bind(name);
    select.fetch_one(connection).await.map_err(failure::of)
}

/// Runs a statement that cannot be prepared, or needs no values. The texts are
/// those of the files.
async fn run(connection: &mut PgConnection, statement: impl Into<String>) -> Result<()> {
    let statement = sqlx::raw_sql(AssertSqlSafe(statement.into()));
    let done = statement.execute(connection).await;
    done.map(drop).map_err(failure::of)
}
