//! Statements on commands with an id that a client has chosen.

use async_trait::async_trait;
use elevo_core::{SandboxId, TenantId};

use super::values::searched;
use super::{PostgresCatalog, failure};
use crate::bounds;
use crate::catalog::Commands;
use crate::error::{Error, Kind, Result};
use crate::records::{Claimed, CommandClaim};

pub(super) const SELECT: &str = "SELECT fingerprint FROM commands WHERE sandbox = $1 AND id = $2";

const INSERT: &str = "INSERT INTO commands (sandbox, id, fingerprint) VALUES ($1, $2, $3) \
                      ON CONFLICT (sandbox, id) DO NOTHING";

const DELETE: &str = "DELETE FROM commands WHERE sandbox = $1 AND id = $2 \
     AND EXISTS (SELECT 1 FROM sandboxes WHERE id = sandbox AND tenant = $3)";

#[async_trait]
impl Commands for PostgresCatalog {
    async fn claim_command(&self, tenant: TenantId, claim: &CommandClaim) -> Result<Claimed> {
        bounds::name("the id of a command", &claim.id)?;
        let mut transaction = self.database.write().await?;
        let owned =
            sqlx::query("SELECT 1 FROM sandboxes WHERE id = $1 AND tenant = $2 FOR KEY SHARE")
                .bind(claim.sandbox.as_str())
                .bind(&tenant.as_bytes()[..])
                .fetch_optional(&mut *transaction)
                .await
                .map_err(failure::of)?;
        if owned.is_none() {
            let what = Kind::Sandbox;
            return Err(Error::NotFound { what });
        }
        let inserted = sqlx::query(INSERT)
            .bind(claim.sandbox.as_str())
            .bind(&claim.id)
            .bind(&claim.fingerprint[..])
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        if inserted.rows_affected() > 0 {
            self.database.commit(transaction).await?;
            return Ok(Claimed::New);
        }
        let known: Option<Vec<u8>> = sqlx::query_scalar(SELECT)
            .bind(claim.sandbox.as_str())
            .bind(&claim.id)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failure::of)?;
        match known {
            Some(known) if known == claim.fingerprint => Ok(Claimed::Again),
            Some(_) => Ok(Claimed::Taken),
            // It was released just now.
            None => Err(Error::Busy),
        }
    }

    async fn release_command(&self, tenant: TenantId, sandbox: &SandboxId, id: &str) -> Result<()> {
        let delete = sqlx::query(DELETE)
            .bind(sandbox.as_str())
            .bind(searched(id))
            .bind(&tenant.as_bytes()[..]);
        self.database.run(delete).await.map(drop)
    }
}
