//! Statements on webhooks.

use async_trait::async_trait;
use elevo_core::TenantId;
use sqlx::QueryBuilder;

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

const SELECT: &str = concat!("SELECT ", columns!(), " FROM webhooks");

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
            .bind(&webhook.id)
            .bind(webhook.tenant.map(|tenant| tenant.as_bytes().to_vec()))
            .bind(&webhook.agent)
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

    async fn webhook(&self, id: &str) -> Result<Option<Webhook>> {
        let mut select = QueryBuilder::new(SELECT);
        select.push(" WHERE id = ").push_bind(id);
        let found = select
            .build_query_as()
            .fetch_optional(self.database.readers());
        found.await.map_err(failure::of)
    }

    async fn webhooks(&self, tenant: Option<TenantId>) -> Result<Vec<Webhook>> {
        let mut select = QueryBuilder::new(SELECT);
        if let Some(tenant) = tenant {
            select.push(" WHERE tenant = ");
            select.push_bind(tenant.as_bytes().to_vec());
        }
        select.push(" ORDER BY created, id");
        let found = select.build_query_as().fetch_all(self.database.readers());
        found.await.map_err(failure::of)
    }

    async fn set_webhook_secret(&self, id: &str, secret: &str) -> Result<bool> {
        bounds::secret(secret)?;
        let statement = sqlx::query("UPDATE webhooks SET secret = ? WHERE id = ?");
        let done = self.database.run(statement.bind(secret).bind(id)).await?;
        Ok(done > 0)
    }

    async fn remove_webhook(&self, id: &str) -> Result<bool> {
        let statement = sqlx::query("DELETE FROM webhooks WHERE id = ?").bind(id);
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }
}
