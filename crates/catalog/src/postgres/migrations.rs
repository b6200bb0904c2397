//! The migrations that a server needs before it uses the database.

use std::time::Duration;

use sqlx::PgConnection;
use sqlx::migrate::Migrator;
use tokio::time::sleep;

use super::failure;
use crate::error::{Error, Result};

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// Maximum time that a migration waits for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Time in which the calls that waited behind a migration go on.
const RETRY: Duration = Duration::from_millis(200);

/// Maximum number of times that migrations are attempted.
const MAX_ATTEMPTS: u32 = 60;

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
