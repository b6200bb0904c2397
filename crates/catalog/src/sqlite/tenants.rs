//! Tenants, and their erasure in small transactions.

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, Timestamp};
use sqlx::error::ErrorKind;
use sqlx::{Decode, Sqlite, Type};

use super::database::{self, Database};
use super::{SqliteCatalog, failure, values};
use crate::bounds::{self, micros};
use crate::catalog::{Projects, Tenants};
use crate::columns::Column;
use crate::error::{Error, Kind, Limit, Result};
use crate::records::Tenant;

macro_rules! columns {
    () => {
        "id, name, created, limits, suspended, erasing"
    };
}

/// Maximum number of rows deleted in one transaction. Other changes can happen
/// between two transactions.
const BATCH: u32 = 500;

/// Deletes a batch of unsettled conflicts, before their workspaces: the deletion of
/// a workspace would delete all its conflicts in one transaction.
pub(super) const DELETE_UNSETTLED: &str = "DELETE FROM unsettled WHERE (workspace, path) IN \
    (SELECT workspace, path FROM unsettled WHERE workspace IN \
        (SELECT id FROM workspaces WHERE tenant = ?) LIMIT ?)";

/// Delete batches of rows that belong to a tenant and to no project. A row is
/// deleted before the rows that it refers to.
pub(super) const DELETE: [&str; 7] = [
    "DELETE FROM snapshots WHERE (tenant, id) IN \
        (SELECT tenant, id FROM snapshots WHERE tenant = ? LIMIT ?)",
    "DELETE FROM deliveries WHERE (webhook, event) IN \
        (SELECT webhook, event FROM deliveries WHERE webhook IN \
            (SELECT id FROM webhooks WHERE tenant = ?) LIMIT ?)",
    "DELETE FROM webhooks WHERE id IN (SELECT id FROM webhooks WHERE tenant = ? LIMIT ?)",
    "DELETE FROM requests WHERE rowid IN (SELECT rowid FROM requests WHERE tenant = ? LIMIT ?)",
    "DELETE FROM workspaces WHERE id IN (SELECT id FROM workspaces WHERE tenant = ? LIMIT ?)",
    "DELETE FROM api_keys WHERE rowid IN (SELECT rowid FROM api_keys WHERE tenant = ? LIMIT ?)",
    "DELETE FROM agents WHERE rowid IN (SELECT rowid FROM agents WHERE tenant = ? LIMIT ?)",
];

/// Delete a batch of events of a tenant, after their deliveries to any webhook.
pub(super) const DELETE_EVENTS: [&str; 2] = [
    "DELETE FROM deliveries WHERE event IN \
        (SELECT id FROM events WHERE tenant = ? ORDER BY id LIMIT ?)",
    "DELETE FROM events WHERE id IN \
        (SELECT id FROM events WHERE tenant = ? ORDER BY id LIMIT ?)",
];

#[async_trait]
impl Tenants for SqliteCatalog {
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()> {
        bounds::tenant(tenant)?;
        let mut transaction = self.database.write().await?;
        let count = sqlx::query("SELECT count(*) FROM tenants");
        database::check_max_listed(&mut transaction, count, Limit::Tenants).await?;
        let insert = "INSERT INTO tenants (id, name, created, limits, suspended) \
                  VALUES (?, ?, ?, ?, ?)";
        sqlx::query(insert)
            .bind(&tenant.id.as_bytes()[..])
            .bind(&tenant.name)
            .bind(micros(tenant.created)?)
            .bind(values::to_json(&tenant.limits)?)
            .bind(tenant.suspended.map(micros).transpose()?)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_adding(Kind::Tenant))?;
        transaction.commit().await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>> {
        let select = concat!("SELECT ", columns!(), " FROM tenants ORDER BY created, id");
        sqlx::query_as(select)
            .fetch_all(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn tenant(&self, id: TenantId) -> Result<Option<Tenant>> {
        let select = concat!("SELECT ", columns!(), " FROM tenants WHERE id = ?");
        sqlx::query_as(select)
            .bind(&id.as_bytes()[..])
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn change_tenant(&self, tenant: &Tenant) -> Result<bool> {
        bounds::tenant(tenant)?;
        let update = "UPDATE tenants SET name = ?, limits = ?, suspended = ? \
                  WHERE id = ? AND erasing IS NULL";
        let mut transaction = self.database.write().await?;
        let changed = sqlx::query(update)
            .bind(&tenant.name)
            .bind(values::to_json(&tenant.limits)?)
            .bind(tenant.suspended.map(micros).transpose()?)
            .bind(&tenant.id.as_bytes()[..])
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_adding(Kind::Tenant))?;
        transaction.commit().await?;
        Ok(changed.rows_affected() > 0)
    }

    async fn begin_erasure(&self, id: TenantId, at: Timestamp) -> Result<Option<Tenant>> {
        let at = micros(at)?;
        let update = "UPDATE tenants SET erasing = coalesce(erasing, ?), \
                  suspended = coalesce(suspended, ?) WHERE id = ?";
        let statement = sqlx::query(update)
            .bind(at)
            .bind(at)
            .bind(&id.as_bytes()[..]);
        self.database.run(statement).await?;
        self.tenant(id).await
    }

    async fn clear_tenant(&self, id: TenantId) -> Result<bool> {
        if !check_erasing(self, id).await? {
            return Ok(false);
        }
        let sandbox = "SELECT id FROM sandboxes WHERE tenant = ? LIMIT 1";
        if let Some(sandbox) = first(&self.database, sandbox, id).await? {
            let what = Kind::Tenant;
            return Err(Error::InUse { what, sandbox });
        }
        delete_all(&self.database, DELETE_UNSETTLED, id).await?;
        let project = "SELECT id FROM projects WHERE tenant = ?";
        while let Some(project) = first::<ProjectId>(&self.database, project, id).await? {
            let mark = sqlx::query("UPDATE projects SET removing = 1 WHERE id = ?");
            let mark = mark.bind(project.as_str());
            self.database.run(mark).await?;
            self.remove_project(id, &project).await?;
        }
        for delete in DELETE {
            delete_all(&self.database, delete, id).await?;
        }
        while delete_events(&self.database, id).await? == u64::from(BATCH) {}
        Ok(true)
    }

    async fn remove_tenant(&self, id: TenantId) -> Result<bool> {
        if !check_erasing(self, id).await? {
            return Ok(false);
        }
        let mut transaction = self.database.write().await?;
        let removed = sqlx::query("DELETE FROM tenants WHERE id = ?")
            .bind(&id.as_bytes()[..])
            .execute(&mut *transaction)
            .await;
        let removed = removed.map_err(|error| {
            let kind = error.as_database_error().map(|inner| inner.kind());
            match kind {
                Some(ErrorKind::ForeignKeyViolation) => Error::Changed { what: Kind::Tenant },
                _ => failure::of(error),
            }
        })?;
        transaction.commit().await?;
        Ok(removed.rows_affected() > 0)
    }
}

/// Returns `false` if the tenant does not exist. Refuses a tenant that is not
/// being erased.
async fn check_erasing(catalog: &SqliteCatalog, id: TenantId) -> Result<bool> {
    match catalog.tenant(id).await? {
        None => Ok(false),
        Some(tenant) if tenant.erasing.is_some() => Ok(true),
        Some(_) => Err(Error::Refused("the tenant is not being erased".into())),
    }
}

async fn first<T>(database: &Database, select: &'static str, tenant: TenantId) -> Result<Option<T>>
where
    Column<T>: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + Send + Unpin,
{
    let found: Option<Column<T>> = sqlx::query_scalar(select)
        .bind(&tenant.as_bytes()[..])
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    Ok(found.map(|column| column.0))
}

async fn delete_all(database: &Database, delete: &'static str, tenant: TenantId) -> Result<()> {
    loop {
        let statement = sqlx::query(delete);
        let statement = statement.bind(&tenant.as_bytes()[..]).bind(BATCH);
        if database.run(statement).await? < u64::from(BATCH) {
            return Ok(());
        }
    }
}

/// Deletes a batch of events; returns the number of deleted events.
async fn delete_events(database: &Database, tenant: TenantId) -> Result<u64> {
    let mut transaction = database.write().await?;
    let mut gone = 0;
    for delete in DELETE_EVENTS {
        let done = sqlx::query(delete)
            .bind(&tenant.as_bytes()[..])
            .bind(BATCH)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        gone = done.rows_affected();
    }
    transaction.commit().await?;
    Ok(gone)
}
