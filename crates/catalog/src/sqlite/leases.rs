//! Statements on leases.

use std::time::Duration;

use async_trait::async_trait;
use elevo_core::Timestamp;

use super::{SqliteCatalog, failure};
use crate::bounds::{self, micros, micros_after};
use crate::catalog::Leases;
use crate::error::Result;
use crate::nodes::{Lease, ServerSession};

/// Takes or renews a lease. The token grows only if the holder changes.
pub(super) const TAKE: &str = "INSERT INTO leases (name, session, token, expires) \
     VALUES (?1, ?2, 1, ?3) ON CONFLICT (name) DO UPDATE SET session = ?2, \
         token = leases.token + (leases.session <> ?2), expires = ?3 \
     WHERE leases.session = ?2 OR leases.expires <= ?4 RETURNING name, token, expires";

/// Keeps the row: the token must not begin again.
pub(super) const RELEASE: &str = "UPDATE leases SET expires = ?4 \
     WHERE name = ?1 AND session = ?2 AND token = ?3 AND expires > ?4";

pub(super) const CHECK: &str = "SELECT count(*) FROM leases \
     WHERE name = ? AND token = ? AND expires > ?";

#[async_trait]
impl Leases for SqliteCatalog {
    async fn take_lease(
        &self,
        name: &str,
        session: ServerSession,
        duration: Duration,
        now: Timestamp,
    ) -> Result<Option<Lease>> {
        bounds::name("the name of a lease", name)?;
        let mut transaction = self.database.write().await?;
        let taken = sqlx::query_as(TAKE)
            .bind(name)
            .bind(bounds::session(session)?)
            .bind(micros_after(now, duration)?)
            .bind(micros(now)?)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failure::of)?;
        if taken.is_some() {
            transaction.commit().await?;
        }
        Ok(taken)
    }

    async fn release_lease(&self, name: &str, session: ServerSession, token: u64) -> Result<bool> {
        let release = sqlx::query(RELEASE)
            .bind(name)
            .bind(bounds::session(session)?)
            .bind(bounds::number("a token", token)?)
            .bind(0);
        Ok(self.database.run(release).await? > 0)
    }

    async fn check_lease(&self, name: &str, token: u64, now: Timestamp) -> Result<bool> {
        let held: i64 = sqlx::query_scalar(CHECK)
            .bind(name)
            .bind(bounds::number("a token", token)?)
            .bind(micros(now)?)
            .fetch_one(self.database.readers())
            .await
            .map_err(failure::of)?;
        Ok(held > 0)
    }
}
