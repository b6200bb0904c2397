//! Statements on webhooks.

use async_trait::async_trait;
use elevo_core::{TenantId, WebhookId};

use super::{SqliteCatalog, events, failure, values};
use crate::bounds::{self, micros};
use crate::catalog::Webhooks;
use crate::error::{Error, Kind, Limit, Result};
use crate::limits;
use crate::records::Webhook;

macro_rules! columns {
    () => {
        "id, tenant, agent, url, secret, kinds, created"
    };
}
pub(super) use columns;

macro_rules! select {
    () => {
        concat!("SELECT ", columns!(), " FROM webhooks")
    };
}

pub(super) const SELECT_OF_OWNER: &str =
    concat!(select!(), " WHERE tenant IS ? ORDER BY created, id");

const INSERT: &str = concat!(
    "INSERT INTO webhooks (",
    columns!(),
    ", position) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
);

#[async_trait]
impl Webhooks for SqliteCatalog {
    async fn add_webhook(&self, webhook: &Webhook) -> Result<()> {
        bounds::webhook(webhook)?;
        let mut transaction = self.database.write().await?;
        if let Some(tenant) = webhook.tenant {
            let count = sqlx::query_scalar("SELECT count(*) FROM webhooks WHERE tenant = ?");
            let count = count.bind(tenant.as_bytes().to_vec());
            let counted: i64 = count
                .fetch_one(&mut *transaction)
                .await
                .map_err(failure::of)?;
            if counted >= i64::from(limits::MAX_WEBHOOKS) {
                let (which, limit) = (Limit::Webhooks, limits::MAX_WEBHOOKS.into());
                return Err(Error::LimitReached { which, limit });
            }
        }
        let position = events::last_in(&mut transaction).await?;
        sqlx::query(INSERT)
            .bind(webhook.id.as_str())
            .bind(values::to_owner(webhook.tenant))
            .bind(webhook.agent.as_deref())
            .bind(&webhook.url)
            .bind(&webhook.secret)
            .bind(values::to_json(&webhook.kinds)?)
            .bind(micros(webhook.created)?)
            .bind(position as i64)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_adding(Kind::Webhook))?;
        transaction.commit().await
    }

    async fn webhook(&self, owner: Option<TenantId>, id: &WebhookId) -> Result<Option<Webhook>> {
        sqlx::query_as(concat!(select!(), " WHERE id = ? AND tenant IS ?"))
            .bind(id.as_str())
            .bind(values::to_owner(owner))
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn webhooks(&self, owner: Option<TenantId>) -> Result<Vec<Webhook>> {
        sqlx::query_as(SELECT_OF_OWNER)
            .bind(values::to_owner(owner))
            .fetch_all(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn webhooks_of_all_tenants(&self) -> Result<Vec<Webhook>> {
        sqlx::query_as(concat!(select!(), " ORDER BY created, id"))
            .fetch_all(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn set_webhook_secret(
        &self,
        owner: Option<TenantId>,
        id: &WebhookId,
        secret: &str,
    ) -> Result<bool> {
        bounds::secret(secret)?;
        let statement = sqlx::query("UPDATE webhooks SET secret = ? WHERE id = ? AND tenant IS ?")
            .bind(secret)
            .bind(id.as_str())
            .bind(values::to_owner(owner));
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }

    async fn remove_webhook(&self, owner: Option<TenantId>, id: &WebhookId) -> Result<bool> {
        let statement = sqlx::query("DELETE FROM webhooks WHERE id = ? AND tenant IS ?")
            .bind(id.as_str())
            .bind(values::to_owner(owner));
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }
}
