//! Limits of tenants, checked in the transaction that adds a record.

use std::collections::BTreeSet;

use elevo_core::TenantId;
use elevo_postgres::Connection;

use super::{database, failure, sandboxes};
use crate::error::{Error, Kind, Limit, Result};
use crate::query::AddLimits;
use crate::records::{Sandbox, TENANT_LIMITS, TenantLimits};

/// Locks the row of a tenant, if there is one, so that additions of counted
/// records of the tenant take turns. Does not hold up records that only refer to
/// the tenant.
pub(super) async fn lock_tenant(connection: &mut Connection, tenant: TenantId) -> Result<()> {
    sqlx::query("SELECT 1 FROM tenants WHERE id = $1 FOR NO KEY UPDATE")
        .bind(&tenant.as_bytes()[..])
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}

/// Locks the row of a tenant and returns its limits. A tenant that is being erased is not found, so
/// that it gets no new records.
async fn limits_of(connection: &mut Connection, tenant: TenantId) -> Result<TenantLimits> {
    let select = "SELECT limits FROM tenants WHERE id = $1 AND erasing IS NULL FOR NO KEY UPDATE";
    let own = sqlx::query_scalar::<_, String>(select)
        .bind(&tenant.as_bytes()[..])
        .fetch_optional(&mut *connection)
        .await
        .map_err(failure::of)?;
    let default = sqlx::query_scalar::<_, String>("SELECT value FROM settings WHERE name = $1")
        .bind(TENANT_LIMITS)
        .fetch_optional(&mut *connection)
        .await
        .map_err(failure::of)?;
    let own = own.ok_or(Error::NotFound { what: Kind::Owner })?;
    Ok(read(&own)?.or(&match default {
        Some(default) => read(&default)?,
        None => TenantLimits::default(),
    }))
}

fn read(text: &str) -> Result<TenantLimits> {
    serde_json::from_str(text).map_err(|error| Error::Damaged(format!("limits: {error}")))
}

/// Checks the limits on the sandboxes of a tenant, after some were added.
async fn check_sandboxes(connection: &mut Connection, tenant: TenantId) -> Result<()> {
    let limits = limits_of(connection, tenant).await?;
    if (limits.sandboxes, limits.memory, limits.disk) == (None, None, None) {
        return Ok(());
    }
    let sums = "SELECT count(*), coalesce(sum((spec::json ->> 'memory')::float8), 0), \
                coalesce(sum((spec::json ->> 'disk')::float8), 0) \
                FROM sandboxes WHERE NOT removing AND tenant = $1";
    let (count, memory, disk): (i64, f64, f64) = sqlx::query_as(sums)
        .bind(&tenant.as_bytes()[..])
        .fetch_one(connection)
        .await
        .map_err(failure::of)?;
    let count = count as u64;
    check(
        count,
        Limit::SandboxesOfTenant,
        limits.sandboxes.map(u64::from),
    )?;
    check(memory as u64, Limit::MemoryOfTenant, limits.memory)?;
    check(disk as u64, Limit::DiskOfTenant, limits.disk)
}

/// Checks all limits on sandboxes, after some were added.
pub(super) async fn check_added(
    connection: &mut Connection,
    added: &[Sandbox],
    limits: AddLimits,
) -> Result<()> {
    let tenants: BTreeSet<_> = added.iter().map(|it| it.tenant).collect();
    for tenant in tenants {
        check_sandboxes(connection, tenant).await?;
    }
    if let Some(limit) = limits.total {
        database::lock_server(connection).await?;
        let count = sqlx::query_scalar(sandboxes::COUNT_ALL);
        let counted = count.fetch_one(&mut *connection).await;
        let counted: i64 = counted.map_err(failure::of)?;
        check(counted as u64, Limit::Sandboxes, Some(limit.into()))?;
    }
    let Some(limit) = limits.per_key else {
        return Ok(());
    };
    let keys: BTreeSet<_> = added.iter().map(|it| (it.tenant, &it.key)).collect();
    for (tenant, key) in keys {
        let count = sqlx::query_scalar(sandboxes::COUNT_OF_KEY)
            .bind(&tenant.as_bytes()[..])
            .bind(key.as_str());
        let counted = count.fetch_one(&mut *connection).await;
        let counted: i64 = counted.map_err(failure::of)?;
        check(counted as u64, Limit::SandboxesOfKey, Some(limit.into()))?;
    }
    Ok(())
}

/// Checks the limit on the workspaces of a tenant, after one was added.
pub(super) async fn check_workspaces(connection: &mut Connection, tenant: TenantId) -> Result<()> {
    let limit = limits_of(connection, tenant).await?.workspaces;
    let count = "SELECT count(*) FROM workspaces WHERE tenant = $1";
    check_count(connection, tenant, count, Limit::WorkspacesOfTenant, limit).await
}

/// Checks the limit on the projects of a tenant, after one was added.
pub(super) async fn check_projects(connection: &mut Connection, tenant: TenantId) -> Result<()> {
    let limit = limits_of(connection, tenant).await?.projects;
    let count = "SELECT count(*) FROM projects WHERE tenant = $1";
    check_count(connection, tenant, count, Limit::ProjectsOfTenant, limit).await
}

async fn check_count(
    connection: &mut Connection,
    tenant: TenantId,
    count: &'static str,
    which: Limit,
    limit: Option<u32>,
) -> Result<()> {
    if limit.is_none() {
        return Ok(());
    }
    let count: i64 = sqlx::query_scalar(count)
        .bind(&tenant.as_bytes()[..])
        .fetch_one(connection)
        .await
        .map_err(failure::of)?;
    check(count as u64, which, limit.map(u64::from))
}

fn check(count: u64, which: Limit, limit: Option<u64>) -> Result<()> {
    match limit {
        Some(limit) if count > limit => Err(Error::LimitReached { which, limit }),
        _ => Ok(()),
    }
}
