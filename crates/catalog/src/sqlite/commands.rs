//! Statements on commands with an id that a client has chosen.

use async_trait::async_trait;
use elevo_core::{SandboxId, TenantId};

use super::{SqliteCatalog, failure};
use crate::bounds;
use crate::catalog::Commands;
use crate::error::{Error, Kind, Result};
use crate::records::{Claimed, CommandClaim};

pub(super) const SELECT: &str = "SELECT fingerprint FROM commands WHERE sandbox = ? AND id = ?";

const INSERT: &str = "INSERT INTO commands (sandbox, id, fingerprint) VALUES (?, ?, ?)";

const DELETE: &str = "DELETE FROM commands WHERE sandbox = ? AND id = ? \
     AND EXISTS (SELECT 1 FROM sandboxes WHERE id = sandbox AND tenant = ?)";

#[async_trait]
impl Commands for SqliteCatalog {
    async fn claim_command(&self, tenant: TenantId, claim: &CommandClaim) -> Result<Claimed> {
        bounds::name("the id of a command", &claim.id)?;
        let mut transaction = self.database.write().await?;
        let owned = sqlx::query("SELECT 1 FROM sandboxes WHERE id = ? AND tenant = ?")
            .bind(claim.sandbox.as_str())
            .bind(&tenant.as_bytes()[..])
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failure::of)?;
        if owned.is_none() {
            let what = Kind::Sandbox;
            return Err(Error::NotFound { what });
        }
        let known: Option<Vec<u8>> = sqlx::query_scalar(SELECT)
            .bind(claim.sandbox.as_str())
            .bind(&claim.id)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failure::of)?;
        match known {
            Some(known) if known == claim.fingerprint => return Ok(Claimed::Again),
            Some(_) => return Ok(Claimed::Taken),
            None => {}
        }
        sqlx::query(INSERT)
            .bind(claim.sandbox.as_str())
            .bind(&claim.id)
            .bind(&claim.fingerprint[..])
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        transaction.commit().await?;
        Ok(Claimed::New)
    }

    async fn release_command(&self, tenant: TenantId, sandbox: &SandboxId, id: &str) -> Result<()> {
        let delete = sqlx::query(DELETE)
            .bind(sandbox.as_str())
            .bind(id)
            .bind(&tenant.as_bytes()[..]);
        self.database.run(delete).await.map(drop)
    }
}
