//! Statements on sandboxes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use elevo_core::{KeyId, SandboxId, SandboxState, TenantId, Timestamp, WorkspaceId};
use elevo_postgres::Connection;
use sqlx::{Postgres, QueryBuilder};

use super::values::searched;
use super::{PostgresCatalog, events, failure, pages, quotas};
use crate::bounds::{self, micros};
use crate::catalog::Sandboxes;
use crate::change::SandboxChange;
use crate::columns::Column;
use crate::error::{Error, Kind, Result};
use crate::limits::MAX_BATCH;
use crate::nodes::NodeId;
use crate::query::{AddLimits, Page, SandboxQuery};
use crate::records::{EventKind, Sandbox};

macro_rules! columns {
    () => {
        "id, tenant, agent, api_key, name, state, reason, failure, template, container, \
         workspace, token_hash, created, expires, updated, removing, keep_workspace, started_before, \
         node, generation, spec, metadata"
    };
}
pub(super) use columns;

/// The columns of a record: those of its row, and some of the row of its
/// workspace.
macro_rules! record {
    () => {
        concat!(
            $crate::postgres::sandboxes::columns!(),
            ", (SELECT project FROM workspaces WHERE workspaces.id = sandboxes.workspace \
                AND workspaces.tenant = sandboxes.tenant) AS project, \
               (SELECT base FROM workspaces WHERE workspaces.id = sandboxes.workspace \
                AND workspaces.tenant = sandboxes.tenant) AS base"
        )
    };
}
pub(super) use record;

const SELECT_OF_ANY_TENANT: &str = concat!("SELECT ", record!(), " FROM sandboxes WHERE id = $1");

const SELECT_ONE: &str = concat!(
    "SELECT ",
    record!(),
    " FROM sandboxes WHERE id = $1 AND tenant = $2"
);

/// Selects a sandbox and locks its row.
const SELECT_FOR_CHANGE: &str = concat!(
    "SELECT ",
    record!(),
    " FROM sandboxes WHERE id = $1 AND tenant = $2 FOR UPDATE"
);

pub(super) const SELECT_BY_NAME: &str = concat!(
    "SELECT ",
    record!(),
    " FROM sandboxes WHERE tenant = $1 AND name = $2 AND NOT removing"
);

pub(super) const SELECT_BY_WORKSPACE: &str = concat!(
    "SELECT ",
    record!(),
    " FROM sandboxes WHERE tenant = $1 AND workspace = $2"
);

pub(super) const SELECT_EXPIRED: &str = concat!(
    "SELECT ",
    record!(),
    " FROM sandboxes WHERE NOT removing AND node = $1 AND expires <= $2 ORDER BY expires, id LIMIT $3"
);

const INSERT: &str = concat!(
    "INSERT INTO sandboxes (",
    columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)"
);

/// Sets the columns that a change can set.
const UPDATE: &str = "UPDATE sandboxes SET name = $1, state = $2, reason = $3, failure = $4, \
                      container = $5, workspace = $6, token_hash = $7, expires = $8, updated = \
                      $9, removing = $10, keep_workspace = $11, started_before = $12, node = \
                      $13, generation = $14, spec = $15, metadata = $16 WHERE id = $17";

const INSERT_METADATA: &str =
    "INSERT INTO sandbox_metadata (tenant, key, value, sandbox) VALUES ($1, $2, $3, $4)";

pub(super) const DELETE_METADATA: &str = "DELETE FROM sandbox_metadata WHERE sandbox = $1";

/// Counts the sandboxes of a key and of all other keys of its agent.
pub(super) const COUNT_OF_KEY: &str = "SELECT count(*) FROM sandboxes \
    WHERE NOT removing AND tenant = $1 AND api_key IN ( \
        SELECT $2 UNION SELECT other.id FROM api_keys own JOIN api_keys other \
            ON other.tenant = own.tenant AND other.agent = own.agent \
            WHERE own.tenant = $1 AND own.id = $2)";

pub(super) const COUNT_ALL: &str = "SELECT count(*) FROM sandboxes WHERE NOT removing";

#[derive(sqlx::FromRow)]
struct StateCount {
    #[sqlx(try_from = "Column<SandboxState>")]
    state: SandboxState,
    #[sqlx(try_from = "Column<u64>")]
    count: u64,
}

#[async_trait]
impl Sandboxes for PostgresCatalog {
    async fn add_sandbox(&self, sandbox: &Sandbox, limits: AddLimits) -> Result<()> {
        self.add_sandboxes(std::slice::from_ref(sandbox), limits)
            .await
    }

    // Adds first and counts afterwards, so that the check is the same for any number
    // of sandboxes and keys.
    async fn add_sandboxes(&self, sandboxes: &[Sandbox], limits: AddLimits) -> Result<()> {
        if sandboxes.len() > MAX_BATCH {
            let why = format!("at most {MAX_BATCH} sandboxes are added at once");
            return Err(Error::Refused(why));
        }
        for sandbox in sandboxes {
            bounds::sandbox(sandbox)?;
        }
        let mut transaction = self.database.write().await?;
        for sandbox in sandboxes {
            insert(&mut transaction, sandbox).await?;
            let starting = EventKind::SandboxStarting;
            events::record_of_sandbox(&mut transaction, sandbox, starting, sandbox.created).await?;
        }
        quotas::check_added(&mut transaction, sandboxes, limits).await?;
        self.database.commit(transaction).await
    }

    async fn sandbox(&self, tenant: TenantId, id: &SandboxId) -> Result<Option<Sandbox>> {
        sqlx::query_as(SELECT_ONE)
            .bind(id.as_str())
            .bind(&tenant.as_bytes()[..])
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn sandbox_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Sandbox>> {
        sqlx::query_as(SELECT_BY_NAME)
            .bind(&tenant.as_bytes()[..])
            .bind(searched(name))
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn sandbox_of_any_tenant(&self, id: &SandboxId) -> Result<Option<Sandbox>> {
        sqlx::query_as(SELECT_OF_ANY_TENANT)
            .bind(id.as_str())
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn sandbox_of_workspace(
        &self,
        tenant: TenantId,
        workspace: &WorkspaceId,
    ) -> Result<Option<Sandbox>> {
        sqlx::query_as(SELECT_BY_WORKSPACE)
            .bind(&tenant.as_bytes()[..])
            .bind(workspace.as_str())
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn sandboxes(&self, query: &SandboxQuery) -> Result<Page<Sandbox>> {
        bounds::query(query)?;
        let mut count = QueryBuilder::new("SELECT count(*) FROM sandboxes WHERE 1 = 1");
        push_filters(&mut count, query);
        pages::page(&self.database, count, select_page(query)?).await
    }

    async fn expired_sandboxes_of_all_tenants(
        &self,
        node: NodeId,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Sandbox>> {
        bounds::limit(limit)?;
        sqlx::query_as(SELECT_EXPIRED)
            .bind(i64::from(node.0))
            .bind(micros(now)?)
            .bind(i64::from(limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn change_sandbox(
        &self,
        tenant: TenantId,
        id: &SandboxId,
        change: &SandboxChange,
        now: Timestamp,
    ) -> Result<Sandbox> {
        let mut transaction = self.database.write().await?;
        let found = find(&mut transaction, tenant, id).await?;
        let what = Kind::Sandbox;
        let sandbox = change.apply(found.ok_or(Error::NotFound { what })?, now)?;
        sqlx::query(UPDATE)
            .bind(&sandbox.name)
            .bind(sandbox.state.name())
            .bind(&sandbox.reason)
            .bind(sandbox.failure.map(<&str>::from))
            .bind(&sandbox.container)
            .bind(sandbox.workspace.as_str())
            .bind(&sandbox.token_hash[..])
            .bind(micros(sandbox.expires)?)
            .bind(micros(sandbox.updated)?)
            .bind(sandbox.removing)
            .bind(sandbox.keep_workspace)
            .bind(sandbox.started_before)
            .bind(i64::from(sandbox.node.0))
            .bind(sandbox.generation as i64)
            .bind(bounds::spec(&sandbox)?)
            .bind(metadata_text(&sandbox))
            .bind(sandbox.id.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_naming(Kind::Sandbox))?;
        if change.metadata.is_some() {
            sqlx::query(DELETE_METADATA)
                .bind(id.as_str())
                .execute(&mut *transaction)
                .await
                .map_err(failure::of)?;
            insert_metadata(&mut transaction, &sandbox).await?;
        }
        for kind in &change.tells {
            events::record_of_sandbox(&mut transaction, &sandbox, *kind, now).await?;
        }
        self.database.commit(transaction).await?;
        Ok(sandbox)
    }

    async fn remove_sandbox(
        &self,
        tenant: TenantId,
        id: &SandboxId,
        now: Timestamp,
    ) -> Result<bool> {
        let mut transaction = self.database.write().await?;
        let Some(sandbox) = find(&mut transaction, tenant, id).await? else {
            return Ok(false);
        };
        let deleted = EventKind::SandboxDeleted;
        events::record_of_sandbox(&mut transaction, &sandbox, deleted, now).await?;
        sqlx::query("DELETE FROM sandboxes WHERE id = $1")
            .bind(id.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await?;
        Ok(true)
    }

    async fn count_of_key(&self, tenant: TenantId, key: &KeyId) -> Result<u64> {
        let count: i64 = sqlx::query_scalar(COUNT_OF_KEY)
            .bind(&tenant.as_bytes()[..])
            .bind(key.as_str())
            .fetch_one(self.database.pool())
            .await
            .map_err(failure::of)?;
        Ok(count as u64)
    }

    async fn count_by_state(
        &self,
        tenant: Option<TenantId>,
    ) -> Result<BTreeMap<SandboxState, u64>> {
        let mut count = count_by_state(tenant);
        let found = count.build_query_as().fetch_all(self.database.pool());
        let found: Vec<StateCount> = found.await.map_err(failure::of)?;
        let mut counts: BTreeMap<_, _> = SandboxState::ALL.map(|state| (state, 0)).into();
        counts.extend(found.into_iter().map(|row| (row.state, row.count)));
        Ok(counts)
    }
}

/// Reads a sandbox in the transaction of a change, and locks it until the
/// transaction ends.
async fn find(
    connection: &mut Connection,
    tenant: TenantId,
    id: &SandboxId,
) -> Result<Option<Sandbox>> {
    sqlx::query_as(SELECT_FOR_CHANGE)
        .bind(id.as_str())
        .bind(&tenant.as_bytes()[..])
        .fetch_optional(connection)
        .await
        .map_err(failure::of)
}

async fn insert(connection: &mut Connection, sandbox: &Sandbox) -> Result<()> {
    sqlx::query(INSERT)
        .bind(sandbox.id.as_str())
        .bind(&sandbox.tenant.as_bytes()[..])
        .bind(sandbox.agent.as_deref())
        .bind(sandbox.key.as_str())
        .bind(&sandbox.name)
        .bind(sandbox.state.name())
        .bind(sandbox.reason.as_deref().map(bounds::reason))
        .bind(sandbox.failure.map(<&str>::from))
        .bind(&sandbox.template)
        .bind(&sandbox.container)
        .bind(sandbox.workspace.as_str())
        .bind(&sandbox.token_hash[..])
        .bind(micros(sandbox.created)?)
        .bind(micros(sandbox.expires)?)
        .bind(micros(sandbox.updated)?)
        .bind(sandbox.removing)
        .bind(sandbox.keep_workspace)
        .bind(sandbox.started_before)
        .bind(i64::from(sandbox.node.0))
        .bind(sandbox.generation as i64)
        .bind(bounds::spec(sandbox)?)
        .bind(metadata_text(sandbox))
        .execute(&mut *connection)
        .await
        .map_err(failure::of_naming(Kind::Sandbox))?;
    insert_metadata(connection, sandbox).await
}

/// Returns the stored form of metadata.
fn metadata_text(sandbox: &Sandbox) -> String {
    serde_json::json!(sandbox.metadata).to_string()
}

/// Adds the rows by which sandboxes are found by their metadata.
async fn insert_metadata(connection: &mut Connection, sandbox: &Sandbox) -> Result<()> {
    for (key, value) in &sandbox.metadata {
        sqlx::query(INSERT_METADATA)
            .bind(&sandbox.tenant.as_bytes()[..])
            .bind(key)
            .bind(value)
            .bind(sandbox.id.as_str())
            .execute(&mut *connection)
            .await
            .map_err(failure::of)?;
    }
    Ok(())
}

/// Binds all values; none becomes part of the SQL text.
fn push_filters(builder: &mut QueryBuilder<Postgres>, query: &SandboxQuery) {
    let pairs = query.metadata.iter().flat_map(|(key, value)| [key, value]);
    if pairs
        .chain(&query.name_prefix)
        .any(|text| text.contains('\0'))
    {
        // No record has such a text, and the database rejects it.
        builder.push(" AND false");
        return;
    }
    if let Some(tenant) = query.tenant {
        builder.push(" AND tenant = ");
        builder.push_bind(tenant.as_bytes().to_vec());
    }
    if let Some(agent) = &query.agent {
        builder.push(" AND agent = ").push_bind(agent.to_string());
    }
    if let Some(state) = query.state {
        builder.push(" AND state = ").push_bind(state.name());
    }
    if let Some(node) = query.node {
        builder.push(" AND node = ").push_bind(i64::from(node.0));
    }
    if let Some(removing) = query.removing {
        // Written out, not bound: SQLite uses a partial index only if the
        // statement itself implies the condition of the index.
        builder.push(if removing {
            " AND removing"
        } else {
            " AND NOT removing"
        });
    }
    if let Some(prefix) = query.name_prefix.as_ref().filter(|text| !text.is_empty()) {
        // Not LIKE, which has wildcards and ignores case.
        builder.push(" AND substr(name, 1, length(");
        builder.push_bind(prefix.clone()).push(")) = ");
        builder.push_bind(prefix.clone());
    }
    for (key, value) in &query.metadata {
        builder.push(" AND id IN (SELECT sandbox FROM sandbox_metadata WHERE key = ");
        builder.push_bind(key.clone()).push(" AND value = ");
        builder.push_bind(value.clone());
        if let Some(tenant) = query.tenant {
            builder.push(" AND tenant = ");
            builder.push_bind(tenant.as_bytes().to_vec());
        }
        builder.push(")");
    }
}

/// Selects a page of sandboxes.
pub(super) fn select_page(query: &SandboxQuery) -> Result<QueryBuilder<Postgres>> {
    let mut select =
        QueryBuilder::new(concat!("SELECT ", record!(), " FROM sandboxes WHERE 1 = 1"));
    push_filters(&mut select, query);
    pages::push_newest_first(&mut select, query.after.as_ref(), query.limit)?;
    let skipped = i64::from(query.page - 1) * i64::from(query.limit);
    select.push(" OFFSET ").push_bind(skipped);
    Ok(select)
}

/// Counts the sandboxes in each state.
pub(super) fn count_by_state(tenant: Option<TenantId>) -> QueryBuilder<Postgres> {
    let mut count = QueryBuilder::new("SELECT state, count(*) AS count FROM sandboxes");
    count.push(" WHERE NOT removing");
    if let Some(tenant) = tenant {
        count.push(" AND tenant = ");
        count.push_bind(tenant.as_bytes().to_vec());
    }
    count.push(" GROUP BY state");
    count
}
