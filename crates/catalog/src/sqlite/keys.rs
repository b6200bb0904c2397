//! Statements on API keys.

use async_trait::async_trait;
use elevo_core::{KeyId, SandboxId, TenantId, Timestamp};

use super::{SqliteCatalog, database, failure, sandboxes, values};
use crate::bounds::{self, micros};
use crate::catalog::Keys;
use crate::error::{Kind, Limit, Result};
use crate::records::{Access, ApiKey, access_columns};

macro_rules! columns {
    () => {
        "tenant, id, agent, name, hash, scopes, limits, created, expires, revoked"
    };
}

pub(super) const SELECT_BY_HASH: &str =
    concat!("SELECT ", columns!(), " FROM api_keys WHERE hash = ?");

/// One statement, and so of one moment. The condition on the tenant keeps the
/// sandboxes of other tenants unknown.
pub(super) const SELECT_ACCESS: &str = concat!(
    "SELECT ",
    access_columns!(),
    " FROM api_keys own JOIN tenants owner ON owner.id = own.tenant LEFT JOIN (SELECT ",
    sandboxes::record!(),
    " FROM sandboxes WHERE id = ?2) found ON found.tenant = own.tenant WHERE own.hash = ?1"
);

#[async_trait]
impl Keys for SqliteCatalog {
    async fn add_key(&self, key: &ApiKey) -> Result<()> {
        bounds::key(key)?;
        let mut transaction = self.database.write().await?;
        let count = sqlx::query("SELECT count(*) FROM api_keys WHERE tenant = ?");
        let count = count.bind(&key.tenant.as_bytes()[..]);
        database::check_max_listed(&mut transaction, count, Limit::Keys).await?;
        let insert = concat!(
            "INSERT INTO api_keys (",
            columns!(),
            ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        );
        sqlx::query(insert)
            .bind(&key.tenant.as_bytes()[..])
            .bind(key.id.as_str())
            .bind(key.agent.as_deref())
            .bind(&key.name)
            .bind(&key.hash[..])
            .bind(values::to_json(&key.scopes)?)
            .bind(values::to_json(&key.limits)?)
            .bind(micros(key.created)?)
            .bind(key.expires.map(micros).transpose()?)
            .bind(key.revoked.map(micros).transpose()?)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_adding(Kind::Key))?;
        transaction.commit().await
    }

    async fn key_of_any_tenant(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>> {
        sqlx::query_as(SELECT_BY_HASH)
            .bind(&hash[..])
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn access_of_any_tenant(
        &self,
        hash: &[u8; 32],
        sandbox: Option<&SandboxId>,
    ) -> Result<Option<Access>> {
        sqlx::query_as(SELECT_ACCESS)
            .bind(&hash[..])
            .bind(sandbox.map(|id| id.as_str()))
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn key(&self, tenant: TenantId, id: &KeyId) -> Result<Option<ApiKey>> {
        let select = concat!(
            "SELECT ",
            columns!(),
            " FROM api_keys WHERE tenant = ? AND id = ?"
        );
        sqlx::query_as(select)
            .bind(&tenant.as_bytes()[..])
            .bind(id.as_str())
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn keys(&self, tenant: TenantId) -> Result<Vec<ApiKey>> {
        let select = concat!(
            "SELECT ",
            columns!(),
            " FROM api_keys WHERE tenant = ? ORDER BY created, id"
        );
        sqlx::query_as(select)
            .bind(&tenant.as_bytes()[..])
            .fetch_all(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn revoke_key(&self, tenant: TenantId, id: &KeyId, at: Timestamp) -> Result<bool> {
        let update =
            "UPDATE api_keys SET revoked = ? WHERE tenant = ? AND id = ? AND revoked IS NULL";
        let statement = sqlx::query(update)
            .bind(micros(at)?)
            .bind(&tenant.as_bytes()[..])
            .bind(id.as_str());
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }
}
