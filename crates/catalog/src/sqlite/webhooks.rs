//! Webhooks and their deliveries.

use elevo_core::{TenantId, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite};

use super::database::Database;
use super::{events, failure, rows};
use crate::bounds::{self, micros};
use crate::error::{Error, Kind, Limit, Result};
use crate::records::{Attempt, Delivery, DeliveryState, EventQuery, Webhook};

macro_rules! columns {
    () => {
        "id, tenant, agent, url, secret, kinds, created"
    };
}

const SELECT: &str = concat!("SELECT ", columns!(), " FROM webhooks");

const INSERT: &str = concat!(
    "INSERT INTO webhooks (",
    columns!(),
    ", position) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
);

const DELIVERIES: &str = "SELECT webhook, state, attempts, due, status, error, updated, \
     id, tenant, agent, kind, subject, at, data \
     FROM deliveries JOIN events ON events.id = deliveries.event WHERE webhook = ";

pub(super) async fn add(database: &Database, webhook: &Webhook) -> Result<()> {
    bounds::webhook(webhook)?;
    let mut transaction = database.write().await?;
    if let Some(tenant) = webhook.tenant {
        let count = sqlx::query_scalar("SELECT count(*) FROM webhooks WHERE tenant = ?");
        let count = count.bind(tenant.as_bytes().to_vec());
        let there: i64 = count
            .fetch_one(&mut *transaction)
            .await
            .map_err(failure::of)?;
        if there >= i64::from(bounds::MAX_WEBHOOKS) {
            let (which, limit) = (Limit::Webhooks, bounds::MAX_WEBHOOKS.into());
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
        .bind(rows::to_json(&webhook.kinds)?)
        .bind(micros(webhook.created)?)
        .bind(position as i64)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of_adding(Kind::Webhook))?;
    transaction.commit().await
}

pub(super) async fn get(database: &Database, id: &str) -> Result<Option<Webhook>> {
    let mut select = QueryBuilder::new(SELECT);
    select.push(" WHERE id = ").push_bind(id);
    let row = select.build().fetch_optional(database.readers()).await;
    let row = row.map_err(failure::of)?;
    row.as_ref().map(rows::webhook).transpose()
}

pub(super) async fn list(database: &Database, tenant: Option<TenantId>) -> Result<Vec<Webhook>> {
    let mut select = QueryBuilder::new(SELECT);
    if let Some(tenant) = tenant {
        select.push(" WHERE tenant = ");
        select.push_bind(tenant.as_bytes().to_vec());
    }
    select.push(" ORDER BY created, id");
    let rows = select.build().fetch_all(database.readers()).await;
    rows::all(&rows.map_err(failure::of)?, rows::webhook)
}

pub(super) async fn set_secret(database: &Database, id: &str, secret: &str) -> Result<bool> {
    bounds::secret(secret)?;
    let statement = sqlx::query("UPDATE webhooks SET secret = ? WHERE id = ?");
    let done = database.run(statement.bind(secret).bind(id)).await?;
    Ok(done > 0)
}

pub(super) async fn remove(database: &Database, id: &str) -> Result<bool> {
    let statement = sqlx::query("DELETE FROM webhooks WHERE id = ?").bind(id);
    let done = database.run(statement).await?;
    Ok(done > 0)
}

/// Moves the position and adds the deliveries in one transaction, so that each
/// event is queued once.
pub(super) async fn queue(
    database: &Database,
    id: &str,
    limit: u32,
    now: Timestamp,
) -> Result<u64> {
    bounds::limit(limit)?;
    let mut transaction = database.write().await?;
    let mut select = QueryBuilder::new(concat!("SELECT ", columns!(), ", position FROM webhooks"));
    select.push(" WHERE id = ").push_bind(id);
    let row = select.build().fetch_optional(&mut *transaction).await;
    let Some(row) = row.map_err(failure::of)? else {
        return Ok(0);
    };
    let (webhook, position) = (rows::webhook(&row)?, rows::number(&row, "position")?);
    let last = sqlx::query_scalar(
        "SELECT max(id) FROM (SELECT id FROM events WHERE id > ? ORDER BY id LIMIT ?)",
    );
    let last = last.bind(position as i64).bind(limit);
    let last: Option<i64> = last
        .fetch_one(&mut *transaction)
        .await
        .map_err(failure::of)?;
    let Some(last) = last else {
        return Ok(0);
    };
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
    let now = micros(now)?;
    insert
        .push_bind(id)
        .push(", id, 'pending', 0, ")
        .push_bind(now);
    insert
        .push(", ")
        .push_bind(now)
        .push(" FROM events WHERE id <= ")
        .push_bind(last);
    events::push_filters(&mut insert, &query);
    let inserted = insert.build().execute(&mut *transaction).await;
    inserted.map_err(failure::of)?;
    let moved = sqlx::query("UPDATE webhooks SET position = ? WHERE id = ?");
    let moved = moved.bind(last).bind(id).execute(&mut *transaction).await;
    moved.map_err(failure::of)?;
    transaction.commit().await?;
    Ok(last as u64 - position)
}

pub(super) async fn pending(database: &Database, id: &str, limit: u32) -> Result<Vec<Delivery>> {
    bounds::limit(limit)?;
    let mut select = QueryBuilder::new(DELIVERIES);
    select.push_bind(id).push(" AND state = 'pending'");
    select.push(" ORDER BY event LIMIT ").push_bind(limit);
    deliveries(database, select).await
}

async fn deliveries(
    database: &Database,
    mut select: QueryBuilder<Sqlite>,
) -> Result<Vec<Delivery>> {
    let rows = select.build().fetch_all(database.readers()).await;
    rows::all(&rows.map_err(failure::of)?, delivery)
}

fn delivery(row: &SqliteRow) -> Result<Delivery> {
    let state: &str = rows::get(row, "state")?;
    let attempts = rows::number(row, "attempts")?;
    let status: Option<i64> = rows::get(row, "status")?;
    Ok(Delivery {
        webhook: rows::get(row, "webhook")?,
        event: rows::event(row)?,
        state: state.parse().map_err(Error::Damaged)?,
        attempts: attempts.try_into().unwrap_or(u32::MAX),
        due: rows::time(row, "due")?,
        status: status.and_then(|status| status.try_into().ok()),
        error: rows::get(row, "error")?,
        updated: rows::time(row, "updated")?,
    })
}

pub(super) async fn note(
    database: &Database,
    id: &str,
    attempts: &[Attempt],
    now: Timestamp,
) -> Result<()> {
    const UPDATE: &str = "UPDATE deliveries SET state = ?, attempts = ?, due = ?, status = ?, \
         error = ?, updated = ? WHERE webhook = ? AND event = ?";
    let mut transaction = database.write().await?;
    for attempt in attempts {
        sqlx::query(UPDATE)
            .bind(attempt.state.name())
            .bind(attempt.attempts)
            .bind(micros(attempt.due)?)
            .bind(attempt.status)
            .bind(attempt.error.as_deref().map(bounds::reason))
            .bind(micros(now)?)
            .bind(id)
            .bind(i64::try_from(attempt.event).unwrap_or(i64::MAX))
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
    }
    transaction.commit().await
}

pub(super) async fn list_deliveries(
    database: &Database,
    id: &str,
    state: Option<DeliveryState>,
    before: Option<u64>,
    limit: u32,
) -> Result<Vec<Delivery>> {
    bounds::limit(limit)?;
    let mut select = QueryBuilder::new(DELIVERIES);
    select.push_bind(id);
    if let Some(state) = state {
        select.push(" AND state = ").push_bind(state.name());
    }
    if let Some(before) = before {
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        select.push(" AND event < ").push_bind(before);
    }
    select.push(" ORDER BY event DESC LIMIT ").push_bind(limit);
    deliveries(database, select).await
}

pub(super) async fn replay(
    database: &Database,
    id: &str,
    event: u64,
    now: Timestamp,
) -> Result<bool> {
    const AGAIN: &str = "UPDATE deliveries SET state = 'pending', attempts = 0, due = ?1, \
         status = NULL, error = NULL, updated = ?1 WHERE webhook = ?2 AND event = ?3";
    let statement = sqlx::query(AGAIN)
        .bind(micros(now)?)
        .bind(id)
        .bind(i64::try_from(event).unwrap_or(i64::MAX));
    let done = database.run(statement).await?;
    Ok(done > 0)
}
