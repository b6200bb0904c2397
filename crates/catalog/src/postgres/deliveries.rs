//! Statements on deliveries of events to webhooks.

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp, WebhookId};
use elevo_postgres::Connection;
use sqlx::QueryBuilder;

use super::{PostgresCatalog, events, failure, webhooks};
use crate::bounds::{self, micros};
use crate::catalog::Deliveries;
use crate::columns::Column;
use crate::error::Result;
use crate::records::{Attempt, Delivery, DeliveryState, EventQuery, Webhook};
use crate::sqlite::values;

/// Selects the id of an owner's webhook: none if the webhook has another owner.
macro_rules! own {
    () => {
        "(SELECT id FROM webhooks WHERE id = $1 AND tenant IS NOT DISTINCT FROM $2)"
    };
}

/// Selects deliveries of an owner's webhook with their events.
macro_rules! select {
    ($deliveries:literal) => {
        concat!(
            "SELECT webhook, state, attempts, due, status, error, updated, \
             id, tenant, agent, kind, subject, at, data FROM ",
            $deliveries,
            " JOIN events ON events.id = deliveries.event WHERE webhook = "
        )
    };
}

pub(super) const SELECT_PENDING: &str = concat!(
    select!("deliveries"),
    own!(),
    " AND state = 'pending' ORDER BY event LIMIT $3"
);

const SELECT_WEBHOOK: &str = concat!(
    "SELECT ",
    webhooks::columns!(),
    ", position FROM webhooks WHERE id = $1 AND tenant IS NOT DISTINCT FROM $2 FOR NO KEY UPDATE"
);

/// Selects the number of the last event of the next batch after a position.
const SELECT_LAST: &str =
    "SELECT max(id) FROM (SELECT id FROM events WHERE id > $1 ORDER BY id LIMIT $2) batch";

#[derive(sqlx::FromRow)]
struct WebhookRow {
    #[sqlx(flatten)]
    webhook: Webhook,
    /// Number of the last event that was read for the webhook.
    #[sqlx(try_from = "Column<u64>")]
    position: u64,
}

#[async_trait]
impl Deliveries for PostgresCatalog {
    // Moves the position and adds the deliveries in one transaction, so that each
    // event is queued once.
    async fn queue_deliveries(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        limit: u32,
        now: Timestamp,
    ) -> Result<u64> {
        bounds::limit(limit)?;
        let now = micros(now)?;
        events::number(self.database.pool()).await?;
        let mut transaction = self.database.write().await?;
        let found: Option<WebhookRow> = sqlx::query_as(SELECT_WEBHOOK)
            .bind(webhook.as_str())
            .bind(values::to_owner(owner))
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failure::of)?;
        let Some(found) = found else {
            return Ok(0);
        };
        let last: Option<i64> = sqlx::query_scalar(SELECT_LAST)
            .bind(found.position as i64)
            .bind(i64::from(limit))
            .fetch_one(&mut *transaction)
            .await
            .map_err(failure::of)?;
        let Some(last) = last else {
            return Ok(0);
        };
        let position = found.position;
        insert(&mut transaction, found, last, now).await?;
        sqlx::query("UPDATE webhooks SET position = $1 WHERE id = $2")
            .bind(last)
            .bind(webhook.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await?;
        Ok(last as u64 - position)
    }

    async fn pending_deliveries(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        limit: u32,
    ) -> Result<Vec<Delivery>> {
        bounds::limit(limit)?;
        sqlx::query_as(SELECT_PENDING)
            .bind(webhook.as_str())
            .bind(values::to_owner(owner))
            .bind(i64::from(limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn note_attempts(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        attempts: &[Attempt],
        now: Timestamp,
    ) -> Result<()> {
        const UPDATE: &str = concat!(
            "UPDATE deliveries SET state = $3, attempts = $4, due = $5, status = $6, error = $7, \
             updated = $8 WHERE webhook = ",
            own!(),
            " AND event = $9"
        );
        let mut transaction = self.database.write().await?;
        for attempt in attempts {
            sqlx::query(UPDATE)
                .bind(webhook.as_str())
                .bind(values::to_owner(owner))
                .bind(attempt.state.name())
                .bind(i64::from(attempt.attempts))
                .bind(micros(attempt.due)?)
                .bind(attempt.status.map(i64::from))
                .bind(attempt.error.as_deref().map(bounds::reason))
                .bind(micros(now)?)
                .bind(i64::try_from(attempt.event).unwrap_or(i64::MAX))
                .execute(&mut *transaction)
                .await
                .map_err(failure::of)?;
        }
        self.database.commit(transaction).await
    }

    async fn deliveries(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        state: Option<DeliveryState>,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<Delivery>> {
        bounds::limit(limit)?;
        let mut select = QueryBuilder::new(select!("deliveries"));
        select.push("(SELECT id FROM webhooks WHERE id = ");
        select
            .push_bind(webhook.as_str())
            .push(" AND tenant IS NOT DISTINCT FROM ");
        select.push_bind(values::to_owner(owner)).push(")");
        if let Some(state) = state {
            select.push(" AND state = ").push_bind(state.name());
        }
        if let Some(before) = before {
            let before = i64::try_from(before).unwrap_or(i64::MAX);
            select.push(" AND event < ").push_bind(before);
        }
        select
            .push(" ORDER BY event DESC LIMIT ")
            .push_bind(i64::from(limit));
        let found = select.build_query_as().fetch_all(self.database.pool());
        found.await.map_err(failure::of)
    }

    async fn replay(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        event: u64,
        now: Timestamp,
    ) -> Result<bool> {
        const AGAIN: &str = concat!(
            "UPDATE deliveries SET state = 'pending', attempts = 0, due = $3, status = NULL, \
             error = NULL, updated = $4 WHERE webhook = ",
            own!(),
            " AND event = $5"
        );
        let now = micros(now)?;
        let statement = sqlx::query(AGAIN)
            .bind(webhook.as_str())
            .bind(values::to_owner(owner))
            .bind(now)
            .bind(now)
            .bind(i64::try_from(event).unwrap_or(i64::MAX));
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }
}

/// Adds a delivery for each event after the position of a webhook and up to `last`
/// that the webhook may see.
async fn insert(
    connection: &mut Connection,
    WebhookRow { webhook, position }: WebhookRow,
    last: i64,
    now: i64,
) -> Result<()> {
    let query = EventQuery {
        tenant: webhook.tenant,
        agent: webhook.agent,
        kinds: webhook.kinds,
        after: position,
        ..EventQuery::default()
    };
    let mut insert = QueryBuilder::new(
        "INSERT INTO deliveries (webhook, event, state, attempts, due, updated) SELECT ",
    );
    insert
        .push_bind(webhook.id.to_string())
        .push(", id, 'pending', 0, ");
    insert.push_bind(now).push(", ").push_bind(now);
    insert.push(" FROM events WHERE id <= ").push_bind(last);
    events::push_filters(&mut insert, &query);
    let inserted = insert.build().execute(connection).await;
    inserted.map(drop).map_err(failure::of)
}
