//! Statements on leases. They use the clock of the database, so that the clocks
//! of the servers do not matter.

use std::time::Duration;

use async_trait::async_trait;
use elevo_core::Timestamp;

use super::{PostgresCatalog, failure};
use crate::bounds::{self, micros_after};
use crate::catalog::Leases;
use crate::error::Result;
use crate::nodes::{Lease, ServerSession};

/// Takes or renews a lease. The token grows only if the holder changes.
pub(super) const TAKE: &str = "INSERT INTO leases (name, session, token, expires) \
     VALUES ($1, $2, 1, now_1() + $3) ON CONFLICT (name) DO UPDATE SET session = $2, \
         token = leases.token + (leases.session <> $2)::int, expires = now_1() + $3 \
     WHERE leases.session = $2 OR leases.expires <= now_1() RETURNING name, token, expires";

/// Keeps the row: the token must not begin again.
pub(super) const RELEASE: &str = "UPDATE leases SET expires = 0 \
     WHERE name = $1 AND session = $2 AND token = $3 AND expires > 0";

pub(super) const CHECK: &str =
    "SELECT EXISTS (SELECT 1 FROM leases WHERE name = $1 AND token = $2 AND expires > now_1())";

#[async_trait]
impl Leases for PostgresCatalog {
    async fn take_lease(
        &self,
        name: &str,
        session: ServerSession,
        duration: Duration,
        now: Timestamp,
    ) -> Result<Option<Lease>> {
        bounds::name("the name of a lease", name)?;
        micros_after(now, duration)?;
        sqlx::query_as(TAKE)
            .bind(name)
            .bind(bounds::session(session)?)
            .bind(duration.as_micros() as i64)
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn release_lease(&self, name: &str, session: ServerSession, token: u64) -> Result<bool> {
        let release = sqlx::query(RELEASE)
            .bind(name)
            .bind(bounds::session(session)?)
            .bind(bounds::number("a token", token)?);
        Ok(self.database.run(release).await? > 0)
    }

    async fn check_lease(&self, name: &str, token: u64, _now: Timestamp) -> Result<bool> {
        sqlx::query_scalar(CHECK)
            .bind(name)
            .bind(bounds::number("a token", token)?)
            .fetch_one(self.database.pool())
            .await
            .map_err(failure::of)
    }
}
