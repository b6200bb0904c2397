//! Statements on events.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp};
use elevo_postgres::Connection;
use serde_json::json;
use sqlx::{PgExecutor, Postgres, QueryBuilder};

use super::values::searched;
use super::{PostgresCatalog, failure};
use crate::bounds::{self, micros};
use crate::catalog::Events;
use crate::error::Result;
use crate::records::{Event, EventKind, EventQuery, NewEvent, Sandbox, Workspace};
use crate::sqlite::values;

macro_rules! columns {
    () => {
        "id, tenant, agent, kind, subject, at, data"
    };
}

const INSERT: &str =
    "INSERT INTO outbox (tenant, agent, kind, subject, at, data) VALUES ($1, $2, $3, $4, $5, $6)";

/// The oldest events that no webhook still has to queue or to deliver.
pub(super) const SELECT_OLD: &str = "SELECT id, tenant FROM events WHERE at < $1 \
     AND id <= coalesce(least( \
         (SELECT min(position) FROM webhooks WHERE webhooks.tenant = events.tenant), \
         (SELECT min(position) FROM webhooks WHERE webhooks.tenant IS NULL)), 9223372036854775807) \
     AND NOT EXISTS (SELECT 1 FROM deliveries \
         WHERE deliveries.event = events.id AND deliveries.state = 'pending') \
     ORDER BY at LIMIT $2";

/// The number of the newest deleted event of a tenant.
pub(super) const SELECT_FORGOTTEN: &str = "SELECT events_forgotten FROM tenants WHERE id = $1";

pub(super) const UPDATE_FORGOTTEN: &str =
    "UPDATE tenants SET events_forgotten = greatest(events_forgotten, $1) WHERE id = $2";

/// Maximum number of events deleted in one transaction.
const DELETE_BATCH: u32 = 5000;

#[async_trait]
impl Events for PostgresCatalog {
    async fn add_event(&self, event: &NewEvent) -> Result<()> {
        let mut transaction = self.database.write().await?;
        insert(&mut transaction, event).await?;
        self.database.commit(transaction).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Vec<Event>> {
        bounds::limit(query.limit)?;
        number(self.database.pool()).await?;
        let mut select = select_page(query);
        let found = select.build_query_as().fetch_all(self.database.pool());
        found.await.map_err(failure::of)
    }

    async fn last_event(&self) -> Result<u64> {
        number(self.database.pool()).await
    }

    async fn wait_for_event(&self, after: u64, at_most: Duration) -> Result<u64> {
        Ok(self.database.follower().wait(after, at_most).await)
    }

    async fn forgotten_events(&self, tenant: TenantId) -> Result<u64> {
        let found = sqlx::query_scalar(SELECT_FORGOTTEN)
            .bind(&tenant.as_bytes()[..])
            .fetch_optional(self.database.pool());
        let found: Option<i64> = found.await.map_err(failure::of)?;
        Ok(found.unwrap_or_default() as u64)
    }

    async fn forget_events(&self, before: Timestamp) -> Result<u64> {
        let mut transaction = self.database.write().await?;
        let old: Vec<(i64, Vec<u8>)> = sqlx::query_as(SELECT_OLD)
            .bind(micros(before)?)
            .bind(i64::from(DELETE_BATCH))
            .fetch_all(&mut *transaction)
            .await
            .map_err(failure::of)?;
        for statement in [
            "DELETE FROM deliveries WHERE event = $1",
            "DELETE FROM events WHERE id = $1",
        ] {
            for (id, _) in &old {
                let deleted = sqlx::query(statement).bind(id).execute(&mut *transaction);
                deleted.await.map_err(failure::of)?;
            }
        }
        let mut newest: HashMap<&[u8], i64> = HashMap::new();
        for (id, tenant) in &old {
            let known = newest.entry(tenant).or_default();
            *known = (*known).max(*id);
        }
        for (tenant, id) in newest {
            let noted = sqlx::query(UPDATE_FORGOTTEN).bind(id).bind(tenant);
            let noted = noted.execute(&mut *transaction).await;
            noted.map_err(failure::of)?;
        }
        self.database.commit(transaction).await?;
        Ok(old.len() as u64)
    }
}

pub(super) async fn insert(connection: &mut Connection, event: &NewEvent) -> Result<()> {
    bounds::event(event)?;
    sqlx::query(INSERT)
        .bind(&event.tenant.as_bytes()[..])
        .bind(event.agent.as_deref())
        .bind(event.kind.name())
        .bind(&event.subject)
        .bind(micros(event.at)?)
        .bind(values::to_json(&event.data)?)
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}

/// Records an event about a sandbox.
pub(super) async fn record_of_sandbox(
    connection: &mut Connection,
    sandbox: &Sandbox,
    kind: EventKind,
    at: Timestamp,
) -> Result<()> {
    let mut data = json!({
        "sandboxId": sandbox.id,
        "name": sandbox.name,
        "state": sandbox.state.name(),
        "reason": sandbox.reason,
        "template": sandbox.template,
        "createdAt": micros(sandbox.created)?,
        "expiresAt": micros(sandbox.expires)?,
    });
    if kind == EventKind::SandboxExpired {
        data["workspace"] = sandbox.workspace.as_str().into();
        data["parked"] = sandbox.keep_workspace.into();
    }
    let event = NewEvent {
        tenant: sandbox.tenant,
        agent: sandbox.agent.clone(),
        kind,
        subject: sandbox.id.to_string(),
        at,
        data,
    };
    insert(connection, &event).await
}

/// Records an event about a workspace.
pub(super) async fn record_of_workspace(
    connection: &mut Connection,
    workspace: &Workspace,
    kind: EventKind,
    at: Timestamp,
) -> Result<()> {
    let event = NewEvent {
        tenant: workspace.tenant,
        agent: workspace.agent.clone(),
        kind,
        subject: workspace.id.to_string(),
        at,
        data: json!({
            "workspace": workspace.id,
            "project": workspace.project,
            "name": workspace.name,
            "createdAt": micros(workspace.created)?,
            "expiresAt": workspace.expires.map(micros).transpose()?,
        }),
    };
    insert(connection, &event).await
}

/// Selects a page of events.
pub(super) fn select_page(query: &EventQuery) -> QueryBuilder<Postgres> {
    let mut select = QueryBuilder::new(concat!("SELECT ", columns!(), " FROM events WHERE 1 = 1"));
    push_filters(&mut select, query);
    select
        .push(" ORDER BY id LIMIT ")
        .push_bind(i64::from(query.limit));
    select
}

/// Binds all values; none becomes part of the SQL text.
pub(super) fn push_filters(builder: &mut QueryBuilder<Postgres>, query: &EventQuery) {
    let after = i64::try_from(query.after).unwrap_or(i64::MAX);
    builder.push(" AND id > ").push_bind(after);
    if let Some(tenant) = query.tenant {
        builder.push(" AND tenant = ");
        builder.push_bind(tenant.as_bytes().to_vec());
    }
    if let Some(agent) = &query.agent {
        builder.push(" AND (agent = ").push_bind(agent.to_string());
        builder.push(" OR kind = ");
        builder.push_bind(EventKind::ProjectLanded.name());
        builder.push(")");
    }
    if let Some(subject) = &query.subject {
        builder
            .push(" AND subject = ")
            .push_bind(searched(subject).to_owned());
    }
    if !query.kinds.is_empty() {
        builder.push(" AND kind IN (");
        let mut names = builder.separated(", ");
        for kind in &query.kinds {
            names.push_bind(kind.name());
        }
        builder.push(")");
    }
}

/// Gives numbers to all committed events that have none; returns the number of
/// the newest event.
pub(super) async fn number(executor: impl PgExecutor<'_>) -> Result<u64> {
    give_numbers(executor).await.map_err(failure::of)
}

/// Does the same for a caller that reads the errors of the database.
pub(super) async fn give_numbers(executor: impl PgExecutor<'_>) -> sqlx::Result<u64> {
    let newest = sqlx::query_scalar("SELECT number_events_1()").fetch_one(executor);
    let newest: i64 = newest.await?;
    Ok(newest as u64)
}
