//! Statements on the snapshots of clients.

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_objects::SnapshotId;
use elevo_postgres::Connection;
use sqlx::{Postgres, QueryBuilder};

use super::values::searched;
use super::{PostgresCatalog, failure};
use crate::bounds::{self, micros};
use crate::catalog::Snapshots;
use crate::columns::Column;
use crate::error::{Error, Kind, Result};
use crate::records::{ClientSnapshot, SnapshotQuery};

macro_rules! columns {
    () => {
        "tenant, id, tree, workspace, api_key, agent, message, name, created"
    };
}

pub(super) const SELECT_ONE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM snapshots WHERE tenant = $1 AND id = $2"
);

/// Selects a snapshot and locks its row.
const SELECT_FOR_CHANGE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM snapshots WHERE tenant = $1 AND id = $2 FOR UPDATE"
);

pub(super) const SELECT_BY_NAME: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM snapshots WHERE tenant = $1 AND name = $2"
);

pub(super) const SELECT_UNNAMED: &str = "SELECT id FROM snapshots WHERE tenant = $1 AND id > $2 \
                                         AND name IS NULL ORDER BY id LIMIT $3";

const INSERT: &str = concat!(
    "INSERT INTO snapshots (",
    columns!(),
    ") SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 FROM tenants WHERE id = $10 AND erasing IS NULL ON CONFLICT (tenant, id) DO NOTHING"
);

const SET_NAME: &str = "UPDATE snapshots SET name = $1 WHERE tenant = $2 AND id = $3";

const DELETE: &str = "DELETE FROM snapshots WHERE tenant = $1 AND id = $2 AND name IS NULL";

#[async_trait]
impl Snapshots for PostgresCatalog {
    async fn record_snapshot(&self, snapshot: &ClientSnapshot) -> Result<ClientSnapshot> {
        bounds::snapshot(snapshot)?;
        let mut transaction = self.database.write().await?;
        let is_new = insert(&mut transaction, snapshot).await?;
        let recorded = find(&mut transaction, snapshot.tenant, snapshot.id).await?;
        let recorded = match recorded {
            None => return Err(Error::NotFound { what: Kind::Owner }),
            Some(recorded) if is_new || snapshot.name.is_none() => recorded,
            Some(recorded) => {
                let name = snapshot.name.clone();
                set_name(&mut transaction, &recorded, name.as_deref()).await?;
                ClientSnapshot { name, ..recorded }
            }
        };
        self.database.commit(transaction).await?;
        Ok(recorded)
    }

    async fn remove_snapshot_name(
        &self,
        tenant: TenantId,
        id: SnapshotId,
    ) -> Result<Option<ClientSnapshot>> {
        let mut transaction = self.database.write().await?;
        let Some(recorded) = find(&mut transaction, tenant, id).await? else {
            return Ok(None);
        };
        set_name(&mut transaction, &recorded, None).await?;
        self.database.commit(transaction).await?;
        Ok(Some(ClientSnapshot {
            name: None,
            ..recorded
        }))
    }

    async fn client_snapshot(
        &self,
        tenant: TenantId,
        id: SnapshotId,
    ) -> Result<Option<ClientSnapshot>> {
        sqlx::query_as(SELECT_ONE)
            .bind(&tenant.as_bytes()[..])
            .bind(&id.0.as_bytes()[..])
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn snapshot_by_name(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> Result<Option<ClientSnapshot>> {
        sqlx::query_as(SELECT_BY_NAME)
            .bind(&tenant.as_bytes()[..])
            .bind(searched(name))
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn client_snapshots(&self, query: &SnapshotQuery) -> Result<Vec<ClientSnapshot>> {
        bounds::limit(query.limit)?;
        select_page(query)?
            .build_query_as()
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn unnamed_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: u32,
    ) -> Result<Vec<SnapshotId>> {
        bounds::limit(limit)?;
        let after = after.map_or_else(Vec::new, |id| id.0.as_bytes().to_vec());
        let found: Vec<Column<SnapshotId>> = sqlx::query_scalar(SELECT_UNNAMED)
            .bind(&tenant.as_bytes()[..])
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)?;
        Ok(found.into_iter().map(|column| column.0).collect())
    }

    async fn forget_snapshot(&self, tenant: TenantId, id: SnapshotId) -> Result<bool> {
        let statement = sqlx::query(DELETE)
            .bind(&tenant.as_bytes()[..])
            .bind(&id.0.as_bytes()[..]);
        Ok(self.database.run(statement).await? > 0)
    }
}

/// Selects a page of snapshots.
pub(super) fn select_page(query: &SnapshotQuery) -> Result<QueryBuilder<Postgres>> {
    let mut select = QueryBuilder::new(concat!(
        "SELECT ",
        columns!(),
        " FROM snapshots WHERE tenant = "
    ));
    select.push_bind(query.tenant.as_bytes().to_vec());
    if let Some(agent) = &query.agent {
        select.push(" AND agent = ").push_bind(agent.to_string());
    }
    if let Some(workspace) = &query.workspace {
        select
            .push(" AND workspace = ")
            .push_bind(workspace.to_string());
    }
    if let Some(prefix) = query.name_prefix.as_ref().filter(|text| !text.is_empty()) {
        // Not LIKE, which has wildcards and ignores case.
        select.push(" AND substr(name, 1, length(");
        select.push_bind(searched(prefix).to_owned()).push(")) = ");
        // Equal to nothing if the prefix has a NUL: the database rejects that.
        select.push_bind((!prefix.contains('\0')).then(|| prefix.clone()));
    }
    if let Some((created, id)) = query.after {
        select.push(" AND (created, id) < (");
        select.push_bind(micros(created)?).push(", ");
        select.push_bind(id.0.as_bytes().to_vec()).push(")");
    }
    select.push(" ORDER BY created DESC, id DESC LIMIT ");
    select.push_bind(i64::from(query.limit));
    Ok(select)
}

async fn find(
    connection: &mut Connection,
    tenant: TenantId,
    id: SnapshotId,
) -> Result<Option<ClientSnapshot>> {
    sqlx::query_as(SELECT_FOR_CHANGE)
        .bind(&tenant.as_bytes()[..])
        .bind(&id.0.as_bytes()[..])
        .fetch_optional(connection)
        .await
        .map_err(failure::of)
}

/// Returns `false` if the snapshot has a record, or its tenant does not exist.
async fn insert(connection: &mut Connection, snapshot: &ClientSnapshot) -> Result<bool> {
    let tenant = snapshot.tenant.as_bytes();
    let inserted = sqlx::query(INSERT)
        .bind(&tenant[..])
        .bind(&snapshot.id.0.as_bytes()[..])
        .bind(snapshot.tree.as_ref().map(|tree| &tree.as_bytes()[..]))
        .bind(snapshot.workspace.as_deref())
        .bind(snapshot.key.as_str())
        .bind(snapshot.agent.as_deref())
        .bind(&snapshot.message)
        .bind(&snapshot.name)
        .bind(micros(snapshot.created)?)
        .bind(&tenant[..])
        .execute(connection)
        .await
        .map_err(failure::of_adding(Kind::Snapshot))?;
    Ok(inserted.rows_affected() > 0)
}

async fn set_name(
    connection: &mut Connection,
    of: &ClientSnapshot,
    name: Option<&str>,
) -> Result<()> {
    sqlx::query(SET_NAME)
        .bind(name)
        .bind(&of.tenant.as_bytes()[..])
        .bind(&of.id.0.as_bytes()[..])
        .execute(connection)
        .await
        .map_err(failure::of_adding(Kind::Snapshot))?;
    Ok(())
}
