//! Statements on webhooks.

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp, WebhookId};

use super::{PostgresCatalog, events, failure, quotas};
use crate::bounds::{self, micros};
use crate::catalog::Webhooks;
use crate::error::{Error, Kind, Limit, Result};
use crate::limits;
use crate::records::{Webhook, WebhookChange};
use crate::sqlite::values;

macro_rules! columns {
    () => {
        "id, tenant, agent, url, secret, previous_secret, previous_until, kinds, created"
    };
}
pub(super) use columns;

macro_rules! select {
    () => {
        concat!("SELECT ", columns!(), " FROM webhooks")
    };
}

pub(super) const SELECT_OF_OWNER: &str = concat!(
    select!(),
    " WHERE tenant IS NOT DISTINCT FROM $1 ORDER BY created, id"
);

const INSERT: &str = concat!(
    "INSERT INTO webhooks (",
    columns!(),
    ", position) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
);

const UPDATE: &str = concat!(
    "UPDATE webhooks SET url = coalesce($3, url), kinds = coalesce($4, kinds) \
     WHERE id = $1 AND tenant IS NOT DISTINCT FROM $2 RETURNING ",
    columns!()
);

/// An unsigned webhook has no secret to keep.
const ROTATE: &str = concat!(
    "UPDATE webhooks SET secret = $3, \
     previous_secret = CASE WHEN $4::bigint IS NULL THEN '' ELSE secret END, \
     previous_until = CASE WHEN secret = '' THEN NULL ELSE $4 END \
     WHERE id = $1 AND tenant IS NOT DISTINCT FROM $2 RETURNING ",
    columns!()
);

pub(super) const FORGET_PREVIOUS: &str = "UPDATE webhooks \
     SET previous_secret = '', previous_until = NULL WHERE previous_until <= $1";

#[async_trait]
impl Webhooks for PostgresCatalog {
    async fn add_webhook(&self, webhook: &Webhook) -> Result<()> {
        bounds::webhook(webhook)?;
        let mut transaction = self.database.write().await?;
        if let Some(tenant) = webhook.tenant {
            quotas::lock_tenant(&mut transaction, tenant).await?;
            let count = sqlx::query_scalar("SELECT count(*) FROM webhooks WHERE tenant = $1");
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
        let position = events::number(&mut *transaction).await?;
        sqlx::query(INSERT)
            .bind(webhook.id.as_str())
            .bind(values::to_owner(webhook.tenant))
            .bind(webhook.agent.as_deref())
            .bind(&webhook.url)
            .bind(&webhook.secret)
            .bind(&webhook.previous_secret)
            .bind(webhook.previous_until.map(micros).transpose()?)
            .bind(values::to_json(&webhook.kinds)?)
            .bind(micros(webhook.created)?)
            .bind(position as i64)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_adding(Kind::Webhook))?;
        self.database.commit(transaction).await
    }

    async fn webhook(&self, owner: Option<TenantId>, id: &WebhookId) -> Result<Option<Webhook>> {
        sqlx::query_as(concat!(
            select!(),
            " WHERE id = $1 AND tenant IS NOT DISTINCT FROM $2"
        ))
        .bind(id.as_str())
        .bind(values::to_owner(owner))
        .fetch_optional(self.database.pool())
        .await
        .map_err(failure::of)
    }

    async fn webhooks(&self, owner: Option<TenantId>) -> Result<Vec<Webhook>> {
        sqlx::query_as(SELECT_OF_OWNER)
            .bind(values::to_owner(owner))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn webhooks_of_all_tenants(&self) -> Result<Vec<Webhook>> {
        sqlx::query_as(concat!(select!(), " ORDER BY created, id"))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn change_webhook(
        &self,
        owner: Option<TenantId>,
        id: &WebhookId,
        change: &WebhookChange,
    ) -> Result<Option<Webhook>> {
        if let Some(url) = &change.url {
            bounds::webhook_url(url)?;
        }
        let kinds = change.kinds.as_ref().map(values::to_json).transpose()?;
        let mut transaction = self.database.write().await?;
        let changed = sqlx::query_as(UPDATE)
            .bind(id.as_str())
            .bind(values::to_owner(owner))
            .bind(change.url.as_deref())
            .bind(kinds)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await?;
        Ok(changed)
    }

    async fn rotate_webhook(
        &self,
        owner: Option<TenantId>,
        id: &WebhookId,
        secret: &str,
        keep_until: Option<Timestamp>,
    ) -> Result<Option<Webhook>> {
        bounds::secret(secret)?;
        let keep_until = keep_until.map(micros).transpose()?;
        let mut transaction = self.database.write().await?;
        let rotated = sqlx::query_as(ROTATE)
            .bind(id.as_str())
            .bind(values::to_owner(owner))
            .bind(secret)
            .bind(keep_until)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await?;
        Ok(rotated)
    }

    async fn seal_webhook_secrets(
        &self,
        owner: Option<TenantId>,
        id: &WebhookId,
        secret: &str,
        previous: &str,
    ) -> Result<bool> {
        bounds::secret(secret)?;
        bounds::secret(previous)?;
        let statement = sqlx::query(
            "UPDATE webhooks SET secret = $1, previous_secret = $2 WHERE id = $3 AND tenant IS NOT DISTINCT FROM $4",
        )
        .bind(secret)
        .bind(previous)
        .bind(id.as_str())
        .bind(values::to_owner(owner));
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }

    async fn forget_webhook_secrets(&self, now: Timestamp) -> Result<u64> {
        let statement = sqlx::query(FORGET_PREVIOUS).bind(micros(now)?);
        self.database.run(statement).await
    }

    async fn remove_webhook(&self, owner: Option<TenantId>, id: &WebhookId) -> Result<bool> {
        let statement =
            sqlx::query("DELETE FROM webhooks WHERE id = $1 AND tenant IS NOT DISTINCT FROM $2")
                .bind(id.as_str())
                .bind(values::to_owner(owner));
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }
}
