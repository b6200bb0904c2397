//! Erasure of a tenant, in small transactions.

use elevo_core::{TenantId, Timestamp};
use sqlx::Row;
use sqlx::error::ErrorKind;

use super::database::Database;
use super::{failure, owners, removal};
use crate::bounds::micros;
use crate::error::{Error, Kind, Result};
use crate::records::Tenant;

/// Number of rows in one transaction: other changes can happen in between.
const BATCH: u32 = 500;

/// Unsettled conflicts. They are deleted before their workspaces, whose deletion
/// would otherwise delete all of them in one transaction.
pub(super) const DELETE_UNSETTLED: &str = "DELETE FROM unsettled WHERE (workspace, path) IN \
    (SELECT workspace, path FROM unsettled WHERE workspace IN \
        (SELECT id FROM workspaces WHERE tenant = ?) LIMIT ?)";

/// Rows that belong to the tenant without a project. A row is deleted before the
/// rows that it refers to.
pub(super) const DELETE: [&str; 6] = [
    "DELETE FROM deliveries WHERE (webhook, event) IN \
        (SELECT webhook, event FROM deliveries WHERE webhook IN \
            (SELECT id FROM webhooks WHERE tenant = ?) LIMIT ?)",
    "DELETE FROM webhooks WHERE id IN (SELECT id FROM webhooks WHERE tenant = ? LIMIT ?)",
    "DELETE FROM requests WHERE rowid IN (SELECT rowid FROM requests WHERE tenant = ? LIMIT ?)",
    "DELETE FROM workspaces WHERE id IN (SELECT id FROM workspaces WHERE tenant = ? LIMIT ?)",
    "DELETE FROM api_keys WHERE rowid IN (SELECT rowid FROM api_keys WHERE tenant = ? LIMIT ?)",
    "DELETE FROM agents WHERE rowid IN (SELECT rowid FROM agents WHERE tenant = ? LIMIT ?)",
];

/// A batch of events of a tenant, with their deliveries to any webhook.
pub(super) const DELETE_EVENTS: [&str; 2] = [
    "DELETE FROM deliveries WHERE event IN \
        (SELECT id FROM events WHERE tenant = ? ORDER BY id LIMIT ?)",
    "DELETE FROM events WHERE id IN \
        (SELECT id FROM events WHERE tenant = ? ORDER BY id LIMIT ?)",
];

pub(super) async fn begin(
    database: &Database,
    id: TenantId,
    at: Timestamp,
) -> Result<Option<Tenant>> {
    let at = micros(at)?;
    let update = "UPDATE tenants SET erasing = coalesce(erasing, ?), \
                  suspended = coalesce(suspended, ?) WHERE id = ?";
    let statement = sqlx::query(update)
        .bind(at)
        .bind(at)
        .bind(&id.as_bytes()[..]);
    database.run(statement).await?;
    owners::tenant(database, id).await
}

pub(super) async fn clear(database: &Database, id: TenantId) -> Result<bool> {
    if !check_erasing(database, id).await? {
        return Ok(false);
    }
    let sandbox = "SELECT id FROM sandboxes WHERE tenant = ? LIMIT 1";
    if let Some(sandbox) = first(database, sandbox, id).await? {
        let what = Kind::Tenant;
        return Err(Error::InUse { what, sandbox });
    }
    delete_all(database, DELETE_UNSETTLED, id).await?;
    while let Some(project) =
        first(database, "SELECT id FROM projects WHERE tenant = ?", id).await?
    {
        let mark = sqlx::query("UPDATE projects SET removing = 1 WHERE id = ?").bind(&project);
        database.run(mark).await?;
        removal::remove(database, &project).await?;
    }
    for delete in DELETE {
        delete_all(database, delete, id).await?;
    }
    while delete_events(database, id).await? == u64::from(BATCH) {}
    Ok(true)
}

pub(super) async fn remove(database: &Database, id: TenantId) -> Result<bool> {
    if !check_erasing(database, id).await? {
        return Ok(false);
    }
    let mut transaction = database.write().await?;
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

/// Returns `false` if the tenant does not exist. Refuses a tenant that is not
/// being erased.
async fn check_erasing(database: &Database, id: TenantId) -> Result<bool> {
    match owners::tenant(database, id).await? {
        None => Ok(false),
        Some(tenant) if tenant.erasing.is_some() => Ok(true),
        Some(_) => Err(Error::Refused("the tenant is not being erased".into())),
    }
}

async fn first(
    database: &Database,
    select: &'static str,
    tenant: TenantId,
) -> Result<Option<String>> {
    let row = sqlx::query(select)
        .bind(&tenant.as_bytes()[..])
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    let id = row.map(|row| row.try_get(0).map_err(failure::of));
    id.transpose()
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

/// Returns the number of deleted events.
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
