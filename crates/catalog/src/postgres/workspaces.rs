//! Statements on workspaces.

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp, WorkspaceId};
use elevo_objects::SnapshotId;
use elevo_postgres::Connection;
use sqlx::{Postgres, QueryBuilder};

use super::values::searched;
use super::{PostgresCatalog, events, failure, pages, projects, quotas, retention, unsettled};
use crate::bounds::{self, micros};
use crate::catalog::Workspaces;
use crate::error::{Error, Kind, Result};
use crate::limits::MAX_SYNC_BYTES;
use crate::nodes::NodeId;
use crate::query::Page;
use crate::records::{Unsettled, Workspace, WorkspaceChange, WorkspaceQuery, WorkspaceState};
use crate::sqlite::values;

macro_rules! columns {
    () => {
        "id, tenant, project, agent, api_key, name, base, synced, merges, sync, read_only, \
         follows, state, node, generation, files_origin, files_base, files_home, \
         files_limit, last_merge, expires, created, updated"
    };
}

const SELECT_ONE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM workspaces WHERE tenant = $1 AND id = $2"
);

/// Selects a workspace and locks its row.
const SELECT_FOR_CHANGE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM workspaces WHERE tenant = $1 AND id = $2 FOR NO KEY UPDATE"
);

pub(super) const SELECT_BY_NAME: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM workspaces WHERE tenant = $1 AND name = $2 AND state <> 'removing'"
);

const INSERT: &str = concat!(
    "INSERT INTO workspaces (",
    columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)"
);

const LOCK_PROJECT: &str = "SELECT removing FROM projects WHERE tenant = $1 AND id = \
     (SELECT project FROM workspaces WHERE tenant = $1 AND id = $2) FOR SHARE";

/// Sets the columns that a change or a merge can set.
const UPDATE: &str = "UPDATE workspaces SET name = $1, base = $2, synced = $3, merges = $4, sync \
                      = $5, read_only = $6, follows = $7, state = $8, node = $9, generation = \
                      $10, files_origin = $11, files_base = $12, files_home = $13, files_limit = \
                      $14, last_merge = $15, expires = $16, updated = $17 WHERE id = $18";

pub(super) const SELECT_EXPIRED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM workspaces WHERE state = 'parked' AND node = $1 AND expires <= $2 ORDER BY expires, id LIMIT $3"
);

#[async_trait]
impl Workspaces for PostgresCatalog {
    async fn add_workspace(&self, workspace: &Workspace) -> Result<()> {
        bounds::workspace(workspace)?;
        let sync = sync_text(workspace)?;
        let mut transaction = self.database.write().await?;
        if let Some(project) = &workspace.project {
            match projects::require_not_removing(&mut transaction, workspace.tenant, project).await
            {
                Err(Error::NotFound { .. }) => return Err(Error::NotFound { what: Kind::Owner }),
                found => found?,
            };
        }
        check_not_dropped(&mut transaction, workspace).await?;
        sqlx::query(INSERT)
            .bind(workspace.id.as_str())
            .bind(&workspace.tenant.as_bytes()[..])
            .bind(workspace.project.as_deref())
            .bind(workspace.agent.as_deref())
            .bind(workspace.key.as_str())
            .bind(&workspace.name)
            .bind(&workspace.base.0.as_bytes()[..])
            .bind(&workspace.synced.0.as_bytes()[..])
            .bind(workspace.merges as i64)
            .bind(sync)
            .bind(workspace.read_only)
            .bind(workspace.follows)
            .bind(values::to_word(workspace.state))
            .bind(i64::from(workspace.node.0))
            .bind(workspace.generation as i64)
            .bind(to_bytes(workspace.files.origin))
            .bind(to_bytes(workspace.files.base))
            .bind(to_bytes(workspace.files.home))
            .bind(workspace.files.limit.map(|limit| limit as i64))
            .bind(workspace.last_merge.map(micros).transpose()?)
            .bind(workspace.expires.map(micros).transpose()?)
            .bind(micros(workspace.created)?)
            .bind(micros(workspace.updated)?)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_naming(Kind::Workspace))?;
        quotas::check_workspaces(&mut transaction, workspace.tenant).await?;
        self.database.commit(transaction).await
    }

    async fn workspace(&self, tenant: TenantId, id: &WorkspaceId) -> Result<Option<Workspace>> {
        sqlx::query_as(SELECT_ONE)
            .bind(&tenant.as_bytes()[..])
            .bind(id.as_str())
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn workspaces_by_name(&self, tenant: TenantId, name: &str) -> Result<Vec<Workspace>> {
        let found = sqlx::query_as(SELECT_BY_NAME)
            .bind(&tenant.as_bytes()[..])
            .bind(searched(name))
            .fetch_all(self.database.pool())
            .await;
        let mut found: Vec<Workspace> = found.map_err(failure::of)?;
        found.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        Ok(found)
    }

    async fn workspaces(&self, query: &WorkspaceQuery) -> Result<Page<Workspace>> {
        bounds::limit(query.limit)?;
        let mut count = QueryBuilder::new("SELECT count(*) FROM workspaces WHERE 1 = 1");
        push_filters(&mut count, query);
        pages::page(&self.database, count, select_page(query)?).await
    }

    async fn expired_workspaces_of_all_tenants(
        &self,
        node: NodeId,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Workspace>> {
        bounds::limit(limit)?;
        sqlx::query_as(SELECT_EXPIRED)
            .bind(i64::from(node.0))
            .bind(micros(now)?)
            .bind(i64::from(limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn change_workspace(
        &self,
        tenant: TenantId,
        id: &WorkspaceId,
        change: &WorkspaceChange,
        now: Timestamp,
    ) -> Result<Workspace> {
        let mut transaction = self.database.write().await?;
        // Before the workspace: landings lock in that order, too.
        let removing = match change.state {
            Some(WorkspaceState::Live) => lock_project(&mut transaction, tenant, id).await?,
            _ => None,
        };
        let workspace = require(&mut transaction, tenant, id).await?;
        let workspace = change.apply(workspace, now)?;
        bounds::unsettled(change.unsettled.as_deref().unwrap_or_default())?;
        if removing == Some(true) {
            let what = Kind::Project;
            return Err(Error::BeingRemoved { what });
        }
        check_not_dropped(&mut transaction, &workspace).await?;
        update(&mut transaction, &workspace).await?;
        if let Some(all) = &change.unsettled {
            unsettled::replace(&mut transaction, id, all).await?;
        }
        for kind in &change.tells {
            events::record_of_workspace(&mut transaction, &workspace, *kind, now).await?;
        }
        self.database.commit(transaction).await?;
        Ok(workspace)
    }

    async fn unsettled(&self, tenant: TenantId, workspace: &WorkspaceId) -> Result<Vec<Unsettled>> {
        sqlx::query_as(unsettled::SELECT)
            .bind(&tenant.as_bytes()[..])
            .bind(workspace.as_str())
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn remove_workspace(&self, tenant: TenantId, id: &WorkspaceId) -> Result<bool> {
        let statement = sqlx::query("DELETE FROM workspaces WHERE tenant = $1 AND id = $2")
            .bind(&tenant.as_bytes()[..])
            .bind(id.as_str());
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }
}

fn to_bytes(snapshot: Option<SnapshotId>) -> Option<Vec<u8>> {
    snapshot.map(|snapshot| snapshot.0.as_bytes().to_vec())
}

fn sync_text(workspace: &Workspace) -> Result<String> {
    bounds::json(
        "the sync settings of a workspace",
        &workspace.sync,
        MAX_SYNC_BYTES,
    )
}

/// Selects a page of workspaces.
pub(super) fn select_page(query: &WorkspaceQuery) -> Result<QueryBuilder<Postgres>> {
    let mut select = QueryBuilder::new(concat!(
        "SELECT ",
        columns!(),
        " FROM workspaces WHERE 1 = 1"
    ));
    push_filters(&mut select, query);
    pages::push_newest_first(&mut select, query.after.as_ref(), query.limit)?;
    Ok(select)
}

fn push_filters(builder: &mut QueryBuilder<Postgres>, query: &WorkspaceQuery) {
    if let Some(tenant) = query.tenant {
        builder.push(" AND tenant = ");
        builder.push_bind(tenant.as_bytes().to_vec());
    }
    if let Some(project) = &query.project {
        builder
            .push(" AND project = ")
            .push_bind(project.to_string());
    }
    if let Some(agent) = &query.agent {
        builder.push(" AND agent = ").push_bind(agent.to_string());
    }
    if let Some(node) = query.node {
        builder.push(" AND node = ").push_bind(i64::from(node.0));
    }
    if let Some(state) = query.state {
        builder
            .push(" AND state = ")
            .push_bind(values::to_word(state));
    }
}

/// Locks the project of a workspace, if it has one, so that its removal cannot
/// begin before the transaction ends. Returns whether it has begun.
async fn lock_project(
    connection: &mut Connection,
    tenant: TenantId,
    workspace: &WorkspaceId,
) -> Result<Option<bool>> {
    sqlx::query_scalar(LOCK_PROJECT)
        .bind(&tenant.as_bytes()[..])
        .bind(workspace.as_str())
        .fetch_optional(connection)
        .await
        .map_err(failure::of)
}

async fn check_not_dropped(connection: &mut Connection, workspace: &Workspace) -> Result<()> {
    match &workspace.project {
        Some(project) => {
            let needed = [workspace.base, workspace.synced];
            retention::check_not_dropped(connection, project, needed).await
        }
        None => Ok(()),
    }
}

/// Reads a workspace in the transaction of a change, so that no other change can
/// affect it until the transaction ends. `NotFound` if there is none.
pub(super) async fn require(
    connection: &mut Connection,
    tenant: TenantId,
    id: &WorkspaceId,
) -> Result<Workspace> {
    let found = sqlx::query_as(SELECT_FOR_CHANGE)
        .bind(&tenant.as_bytes()[..])
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
        .map_err(failure::of)?;
    let what = Kind::Workspace;
    found.ok_or(Error::NotFound { what })
}

pub(super) async fn update(connection: &mut Connection, workspace: &Workspace) -> Result<()> {
    sqlx::query(UPDATE)
        .bind(&workspace.name)
        .bind(&workspace.base.0.as_bytes()[..])
        .bind(&workspace.synced.0.as_bytes()[..])
        .bind(workspace.merges as i64)
        .bind(sync_text(workspace)?)
        .bind(workspace.read_only)
        .bind(workspace.follows)
        .bind(values::to_word(workspace.state))
        .bind(i64::from(workspace.node.0))
        .bind(workspace.generation as i64)
        .bind(to_bytes(workspace.files.origin))
        .bind(to_bytes(workspace.files.base))
        .bind(to_bytes(workspace.files.home))
        .bind(workspace.files.limit.map(|limit| limit as i64))
        .bind(workspace.last_merge.map(micros).transpose()?)
        .bind(workspace.expires.map(micros).transpose()?)
        .bind(micros(workspace.updated)?)
        .bind(workspace.id.as_str())
        .execute(connection)
        .await
        .map_err(failure::of_naming(Kind::Workspace))?;
    Ok(())
}
