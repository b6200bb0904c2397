//! Tenants, and their erasure in small transactions.

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, Timestamp};
use sqlx::error::ErrorKind;
use sqlx::{Decode, Postgres, Type};

use super::database::{self, Database};
use super::{PostgresCatalog, events, failure};
use crate::bounds::{self, micros};
use crate::catalog::{Projects, Tenants};
use crate::columns::Column;
use crate::error::{Error, Kind, Limit, Result};
use crate::records::Tenant;
use crate::sqlite::values;

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
        (SELECT id FROM workspaces WHERE tenant = $1) LIMIT $2)";

/// Delete batches of rows that belong to a tenant and to no project. A row is
/// deleted before the rows that it refers to.
pub(super) const DELETE: [&str; 7] = [
    "DELETE FROM snapshots WHERE (tenant, id) IN \
        (SELECT tenant, id FROM snapshots WHERE tenant = $1 LIMIT $2)",
    "DELETE FROM deliveries WHERE (webhook, event) IN \
        (SELECT webhook, event FROM deliveries WHERE webhook IN \
            (SELECT id FROM webhooks WHERE tenant = $1) LIMIT $2)",
    "DELETE FROM webhooks WHERE id IN (SELECT id FROM webhooks WHERE tenant = $1 LIMIT $2)",
    "DELETE FROM requests WHERE (tenant, name) IN (SELECT tenant, name FROM requests WHERE tenant = $1 LIMIT $2)",
    "DELETE FROM workspaces WHERE id IN (SELECT id FROM workspaces WHERE tenant = $1 LIMIT $2)",
    "DELETE FROM api_keys WHERE (tenant, id) IN (SELECT tenant, id FROM api_keys WHERE tenant = $1 LIMIT $2)",
    "DELETE FROM agents WHERE (tenant, id) IN (SELECT tenant, id FROM agents WHERE tenant = $1 LIMIT $2)",
];

/// Delete a batch of events of a tenant, after their deliveries to any webhook.
pub(super) const DELETE_EVENTS: [&str; 2] = [
    "DELETE FROM deliveries WHERE event IN \
        (SELECT id FROM events WHERE tenant = $1 ORDER BY id LIMIT $2)",
    "DELETE FROM events WHERE id IN \
        (SELECT id FROM events WHERE tenant = $1 ORDER BY id LIMIT $2)",
];

#[async_trait]
impl Tenants for PostgresCatalog {
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()> {
        bounds::tenant(tenant)?;
        let mut transaction = self.database.write().await?;
        database::lock_server(&mut transaction).await?;
        let count = sqlx::query("SELECT count(*) FROM tenants");
        database::check_max_listed(&mut transaction, count, Limit::Tenants).await?;
        let insert = "INSERT INTO tenants (id, name, created, limits, suspended) \
                  VALUES ($1, $2, $3, $4, $5)";
        sqlx::query(insert)
            .bind(&tenant.id.as_bytes()[..])
            .bind(&tenant.name)
            .bind(micros(tenant.created)?)
            .bind(values::to_json(&tenant.limits)?)
            .bind(tenant.suspended.map(micros).transpose()?)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_adding(Kind::Tenant))?;
        self.database.commit(transaction).await
    }

    async fn tenants(&self) -> Result<Vec<Tenant>> {
        let select = concat!("SELECT ", columns!(), " FROM tenants ORDER BY created, id");
        sqlx::query_as(select)
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn tenant(&self, id: TenantId) -> Result<Option<Tenant>> {
        let select = concat!("SELECT ", columns!(), " FROM tenants WHERE id = $1");
        sqlx::query_as(select)
            .bind(&id.as_bytes()[..])
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn change_tenant(&self, tenant: &Tenant) -> Result<bool> {
        bounds::tenant(tenant)?;
        let update = "UPDATE tenants SET name = $1, limits = $2, suspended = $3 \
                  WHERE id = $4 AND erasing IS NULL";
        let mut transaction = self.database.write().await?;
        let changed = sqlx::query(update)
            .bind(&tenant.name)
            .bind(values::to_json(&tenant.limits)?)
            .bind(tenant.suspended.map(micros).transpose()?)
            .bind(&tenant.id.as_bytes()[..])
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_adding(Kind::Tenant))?;
        self.database.commit(transaction).await?;
        Ok(changed.rows_affected() > 0)
    }

    async fn begin_erasure(&self, id: TenantId, at: Timestamp) -> Result<Option<Tenant>> {
        let at = micros(at)?;
        let update = "UPDATE tenants SET erasing = coalesce(erasing, $1), \
                  suspended = coalesce(suspended, $2) WHERE id = $3";
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
        let sandbox = "SELECT id FROM sandboxes WHERE tenant = $1 LIMIT 1";
        if let Some(sandbox) = first(&self.database, sandbox, id).await? {
            let what = Kind::Tenant;
            return Err(Error::InUse { what, sandbox });
        }
        delete_all(&self.database, DELETE_UNSETTLED, id).await?;
        let project = "SELECT id FROM projects WHERE tenant = $1";
        while let Some(project) = first::<ProjectId>(&self.database, project, id).await? {
            let mark = sqlx::query("UPDATE projects SET removing = true WHERE id = $1");
            let mark = mark.bind(project.as_str());
            self.database.run(mark).await?;
            self.remove_project(id, &project).await?;
        }
        for delete in DELETE {
            delete_all(&self.database, delete, id).await?;
        }
        // Only events with a number are deleted.
        events::number(self.database.pool()).await?;
        while delete_events(&self.database, id).await? == u64::from(BATCH) {}
        Ok(true)
    }

    async fn remove_tenant(&self, id: TenantId) -> Result<bool> {
        if !check_erasing(self, id).await? {
            return Ok(false);
        }
        let mut transaction = self.database.write().await?;
        let removed = sqlx::query("DELETE FROM tenants WHERE id = $1")
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
        self.database.commit(transaction).await?;
        Ok(removed.rows_affected() > 0)
    }
}

/// Returns `false` if the tenant does not exist. Refuses a tenant that is not
/// being erased.
async fn check_erasing(catalog: &PostgresCatalog, id: TenantId) -> Result<bool> {
    match catalog.tenant(id).await? {
        None => Ok(false),
        Some(tenant) if tenant.erasing.is_some() => Ok(true),
        Some(_) => Err(Error::Refused("the tenant is not being erased".into())),
    }
}

async fn first<T>(database: &Database, select: &'static str, tenant: TenantId) -> Result<Option<T>>
where
    Column<T>: for<'r> Decode<'r, Postgres> + Type<Postgres> + Send + Unpin,
{
    let found: Option<Column<T>> = sqlx::query_scalar(select)
        .bind(&tenant.as_bytes()[..])
        .fetch_optional(database.pool())
        .await
        .map_err(failure::of)?;
    Ok(found.map(|column| column.0))
}

async fn delete_all(database: &Database, delete: &'static str, tenant: TenantId) -> Result<()> {
    loop {
        let statement = sqlx::query(delete);
        let statement = statement
            .bind(&tenant.as_bytes()[..])
            .bind(i64::from(BATCH));
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
            .bind(i64::from(BATCH))
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        gone = done.rows_affected();
    }
    database.commit(transaction).await?;
    Ok(gone)
}
