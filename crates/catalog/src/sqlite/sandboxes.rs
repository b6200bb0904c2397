//! Statements on sandboxes.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use elevo_core::{KeyId, SandboxId, SandboxState, TenantId, Timestamp, WorkspaceId};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection, SqliteExecutor};

use super::{SqliteCatalog, events, failure, pages, quotas};
use crate::bounds::{self, micros};
use crate::catalog::Sandboxes;
use crate::change::SandboxChange;
use crate::columns::Column;
use crate::error::{Error, Kind, Limit, Result};
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
            $crate::sqlite::sandboxes::columns!(),
            ", (SELECT project FROM workspaces WHERE workspaces.id = sandboxes.workspace \
                AND workspaces.tenant = sandboxes.tenant) AS project, \
               (SELECT base FROM workspaces WHERE workspaces.id = sandboxes.workspace \
                AND workspaces.tenant = sandboxes.tenant) AS base"
        )
    };
}
pub(super) use record;

const SELECT_OF_ANY_TENANT: &str = concat!("SELECT ", record!(), " FROM sandboxes WHERE id = ?");

const SELECT_ONE: &str = concat!(
    "SELECT ",
    record!(),
    " FROM sandboxes WHERE id = ? AND tenant = ?"
);

pub(super) const SELECT_BY_NAME: &str = concat!(
    "SELECT ",
    record!(),
    " FROM sandboxes WHERE tenant = ? AND name = ? AND removing = 0"
);

pub(super) const SELECT_BY_WORKSPACE: &str = concat!(
    "SELECT ",
    record!(),
    " FROM sandboxes WHERE tenant = ? AND workspace = ?"
);

pub(super) const SELECT_EXPIRED: &str = concat!(
    "SELECT ",
    record!(),
    " FROM sandboxes WHERE removing = 0 AND node = ? AND expires <= ? ORDER BY expires, id LIMIT ?"
);

const INSERT: &str = concat!(
    "INSERT INTO sandboxes (",
    columns!(),
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
);

/// Sets the columns that a change can set.
const UPDATE: &str = "UPDATE sandboxes SET name = ?, state = ?, reason = ?, failure = ?, \
                      container = ?, workspace = ?, token_hash = ?, expires = ?, updated = ?, removing = ?, \
                      keep_workspace = ?, started_before = ?, node = ?, generation = ?, spec = ?, metadata = ? WHERE id = ?";

const INSERT_METADATA: &str =
    "INSERT INTO sandbox_metadata (tenant, key, value, sandbox) VALUES (?, ?, ?, ?)";

pub(super) const DELETE_METADATA: &str = "DELETE FROM sandbox_metadata WHERE sandbox = ?";

/// Counts the sandboxes of a key and of all other keys of its agent.
pub(super) const COUNT_OF_KEY: &str = "SELECT count(*) FROM sandboxes \
    WHERE removing = 0 AND tenant = ?1 AND api_key IN ( \
        SELECT ?2 UNION SELECT other.id FROM api_keys own JOIN api_keys other \
            ON other.tenant = own.tenant AND other.agent = own.agent \
            WHERE own.tenant = ?1 AND own.id = ?2)";

pub(super) const COUNT_ALL: &str = "SELECT count(*) FROM sandboxes WHERE removing = 0";

#[derive(sqlx::FromRow)]
struct StateCount {
    #[sqlx(try_from = "Column<SandboxState>")]
    state: SandboxState,
    #[sqlx(try_from = "Column<u64>")]
    count: u64,
}

#[async_trait]
impl Sandboxes for SqliteCatalog {
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
        check_limits(&mut transaction, sandboxes, limits).await?;
        transaction.commit().await
    }

    async fn sandbox(&self, tenant: TenantId, id: &SandboxId) -> Result<Option<Sandbox>> {
        find(self.database.readers(), tenant, id).await
    }

    async fn sandbox_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Sandbox>> {
        sqlx::query_as(SELECT_BY_NAME)
            .bind(&tenant.as_bytes()[..])
            .bind(name)
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn sandbox_of_any_tenant(&self, id: &SandboxId) -> Result<Option<Sandbox>> {
        sqlx::query_as(SELECT_OF_ANY_TENANT)
            .bind(id.as_str())
            .fetch_optional(self.database.readers())
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
            .fetch_optional(self.database.readers())
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
            .bind(node.0)
            .bind(micros(now)?)
            .bind(limit)
            .fetch_all(self.database.readers())
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
        let found = find(&mut *transaction, tenant, id).await?;
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
            .bind(sandbox.node.0)
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
        transaction.commit().await?;
        Ok(sandbox)
    }

    async fn remove_sandbox(
        &self,
        tenant: TenantId,
        id: &SandboxId,
        now: Timestamp,
    ) -> Result<bool> {
        let mut transaction = self.database.write().await?;
        let Some(sandbox) = find(&mut *transaction, tenant, id).await? else {
            return Ok(false);
        };
        let deleted = EventKind::SandboxDeleted;
        events::record_of_sandbox(&mut transaction, &sandbox, deleted, now).await?;
        sqlx::query("DELETE FROM sandboxes WHERE id = ?")
            .bind(id.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn count_of_key(&self, tenant: TenantId, key: &KeyId) -> Result<u64> {
        let count: i64 = sqlx::query_scalar(COUNT_OF_KEY)
            .bind(&tenant.as_bytes()[..])
            .bind(key.as_str())
            .fetch_one(self.database.readers())
            .await
            .map_err(failure::of)?;
        Ok(count as u64)
    }

    async fn count_by_state(
        &self,
        tenant: Option<TenantId>,
    ) -> Result<BTreeMap<SandboxState, u64>> {
        let mut count = count_by_state(tenant);
        let found = count.build_query_as().fetch_all(self.database.readers());
        let found: Vec<StateCount> = found.await.map_err(failure::of)?;
        let mut counts: BTreeMap<_, _> = SandboxState::ALL.map(|state| (state, 0)).into();
        counts.extend(found.into_iter().map(|row| (row.state, row.count)));
        Ok(counts)
    }
}

/// Reads a sandbox. In the transaction of a change, no other change can affect the
/// sandbox until the transaction ends.
async fn find(
    executor: impl SqliteExecutor<'_>,
    tenant: TenantId,
    id: &SandboxId,
) -> Result<Option<Sandbox>> {
    sqlx::query_as(SELECT_ONE)
        .bind(id.as_str())
        .bind(&tenant.as_bytes()[..])
        .fetch_optional(executor)
        .await
        .map_err(failure::of)
}

async fn check_limits(
    connection: &mut SqliteConnection,
    sandboxes: &[Sandbox],
    limits: AddLimits,
) -> Result<()> {
    let tenants: BTreeSet<_> = sandboxes.iter().map(|it| it.tenant).collect();
    for tenant in tenants {
        quotas::check_sandboxes(connection, tenant).await?;
    }
    if let Some(limit) = limits.total {
        let count = sqlx::query_scalar(COUNT_ALL);
        let counted = count.fetch_one(&mut *connection).await;
        check(counted.map_err(failure::of)?, Limit::Sandboxes, limit)?;
    }
    let Some(limit) = limits.per_key else {
        return Ok(());
    };
    let keys: BTreeSet<_> = sandboxes.iter().map(|it| (it.tenant, &it.key)).collect();
    for (tenant, key) in keys {
        let count = sqlx::query_scalar(COUNT_OF_KEY)
            .bind(&tenant.as_bytes()[..])
            .bind(key.as_str());
        let counted = count.fetch_one(&mut *connection).await;
        check(counted.map_err(failure::of)?, Limit::SandboxesOfKey, limit)?;
    }
    Ok(())
}

fn check(count: i64, which: Limit, limit: u32) -> Result<()> {
    if count > i64::from(limit) {
        let limit = limit.into();
        return Err(Error::LimitReached { which, limit });
    }
    Ok(())
}

async fn insert(connection: &mut SqliteConnection, sandbox: &Sandbox) -> Result<()> {
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
        .bind(sandbox.node.0)
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
async fn insert_metadata(connection: &mut SqliteConnection, sandbox: &Sandbox) -> Result<()> {
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
fn push_filters(builder: &mut QueryBuilder<Sqlite>, query: &SandboxQuery) {
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
        builder.push(" AND node = ").push_bind(node.0);
    }
    if let Some(removing) = query.removing {
        // Written out, not bound: SQLite uses a partial index only if the
        // statement itself implies the condition of the index.
        builder.push(if removing {
            " AND removing = 1"
        } else {
            " AND removing = 0"
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
pub(super) fn select_page(query: &SandboxQuery) -> Result<QueryBuilder<Sqlite>> {
    let mut select =
        QueryBuilder::new(concat!("SELECT ", record!(), " FROM sandboxes WHERE 1 = 1"));
    push_filters(&mut select, query);
    pages::push_newest_first(&mut select, query.after.as_ref(), query.limit)?;
    let skipped = i64::from(query.page - 1) * i64::from(query.limit);
    select.push(" OFFSET ").push_bind(skipped);
    Ok(select)
}

/// Counts the sandboxes in each state.
pub(super) fn count_by_state(tenant: Option<TenantId>) -> QueryBuilder<Sqlite> {
    let mut count = QueryBuilder::new("SELECT state, count(*) AS count FROM sandboxes");
    count.push(" WHERE removing = 0");
    if let Some(tenant) = tenant {
        count.push(" AND tenant = ");
        count.push_bind(tenant.as_bytes().to_vec());
    }
    count.push(" GROUP BY state");
    count
}
