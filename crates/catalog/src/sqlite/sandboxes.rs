//! Single sandboxes.

use std::collections::BTreeSet;

use elevo_core::{TenantId, Timestamp};
use sqlx::SqliteConnection;

use super::database::Database;
use super::{events, failure, quotas, rows};
use crate::bounds::{self, MAX_BATCH, micros};
use crate::change::SandboxChange;
use crate::error::{Error, Kind, Limit, Result};
use crate::query::AddLimits;
use crate::records::{EventKind, Sandbox};

macro_rules! columns {
    () => {
        "id, tenant, agent, api_key, name, state, reason, template, container, workspace, \
         token_hash, created, expires, updated, removing, keep_workspace, spec"
    };
}
pub(super) use columns;

const SELECT_ONE: &str = concat!("SELECT ", columns!(), " FROM sandboxes WHERE id = ?");

pub(super) const SELECT_BY_WORKSPACE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM sandboxes WHERE tenant = ? AND workspace = ?"
);

const INSERT: &str = concat!(
    "INSERT INTO sandboxes (",
    columns!(),
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
);

/// Everything that a change can change.
const UPDATE: &str = "UPDATE sandboxes SET name = ?, state = ?, reason = ?, container = ?, \
                      workspace = ?, token_hash = ?, expires = ?, updated = ?, removing = ?, \
                      keep_workspace = ?, spec = ? WHERE id = ?";

/// The sandboxes of the key and of all other keys of its agent.
pub(super) const COUNT_OF_KEY: &str = "SELECT count(*) FROM sandboxes \
    WHERE removing = 0 AND tenant = ?1 AND api_key IN ( \
        SELECT ?2 UNION SELECT other.id FROM api_keys own JOIN api_keys other \
            ON other.tenant = own.tenant AND other.agent = own.agent \
            WHERE own.tenant = ?1 AND own.id = ?2)";

pub(super) const COUNT_ALL: &str = "SELECT count(*) FROM sandboxes WHERE removing = 0";

/// Adds first and counts afterwards, so that the check is the same for any number
/// of sandboxes and keys.
pub(super) async fn add(
    database: &Database,
    sandboxes: &[Sandbox],
    limits: AddLimits,
) -> Result<()> {
    if sandboxes.len() > MAX_BATCH {
        let why = format!("at most {MAX_BATCH} sandboxes are added at once");
        return Err(Error::Refused(why));
    }
    for sandbox in sandboxes {
        bounds::sandbox(sandbox)?;
    }
    let mut transaction = database.write().await?;
    for sandbox in sandboxes {
        insert(&mut transaction, sandbox).await?;
        let starting = EventKind::SandboxStarting;
        events::tell(&mut transaction, sandbox, starting, sandbox.created).await?;
    }
    check_limits(&mut transaction, sandboxes, limits).await?;
    transaction.commit().await
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
        let there = count.fetch_one(&mut *connection).await;
        check(there.map_err(failure::of)?, Limit::Sandboxes, limit)?;
    }
    let Some(limit) = limits.per_key else {
        return Ok(());
    };
    let keys: BTreeSet<_> = sandboxes.iter().map(|it| (it.tenant, &it.key)).collect();
    for (tenant, key) in keys {
        let count = sqlx::query_scalar(COUNT_OF_KEY)
            .bind(&tenant.as_bytes()[..])
            .bind(key);
        let there = count.fetch_one(&mut *connection).await;
        check(there.map_err(failure::of)?, Limit::SandboxesOfKey, limit)?;
    }
    Ok(())
}

fn check(there: i64, which: Limit, limit: u32) -> Result<()> {
    if there > i64::from(limit) {
        let limit = limit.into();
        return Err(Error::LimitReached { which, limit });
    }
    Ok(())
}

async fn insert(connection: &mut SqliteConnection, sandbox: &Sandbox) -> Result<()> {
    sqlx::query(INSERT)
        .bind(&sandbox.id)
        .bind(&sandbox.tenant.as_bytes()[..])
        .bind(&sandbox.agent)
        .bind(&sandbox.key)
        .bind(&sandbox.name)
        .bind(sandbox.state.name())
        .bind(sandbox.reason.as_deref().map(bounds::reason))
        .bind(&sandbox.template)
        .bind(&sandbox.container)
        .bind(&sandbox.workspace)
        .bind(&sandbox.token_hash[..])
        .bind(micros(sandbox.created)?)
        .bind(micros(sandbox.expires)?)
        .bind(micros(sandbox.updated)?)
        .bind(sandbox.removing)
        .bind(sandbox.keep_workspace)
        .bind(bounds::spec(sandbox)?)
        .execute(connection)
        .await
        .map_err(failure::of_adding(Kind::Sandbox))?;
    Ok(())
}

pub(super) async fn get(database: &Database, id: &str) -> Result<Option<Sandbox>> {
    let row = sqlx::query(SELECT_ONE)
        .bind(id)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::sandbox).transpose()
}

pub(super) async fn of_workspace(
    database: &Database,
    tenant: TenantId,
    workspace: &str,
) -> Result<Option<Sandbox>> {
    let row = sqlx::query(SELECT_BY_WORKSPACE)
        .bind(&tenant.as_bytes()[..])
        .bind(workspace)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::sandbox).transpose()
}

pub(super) async fn change(
    database: &Database,
    id: &str,
    change: &SandboxChange,
    now: Timestamp,
) -> Result<Sandbox> {
    let mut transaction = database.write().await?;
    let found = sqlx::query(SELECT_ONE).bind(id);
    let found = found.fetch_optional(&mut *transaction).await;
    let what = Kind::Sandbox;
    let found = found
        .map_err(failure::of)?
        .ok_or(Error::NotFound { what })?;
    let sandbox = change.apply(rows::sandbox(&found)?, now)?;
    sqlx::query(UPDATE)
        .bind(&sandbox.name)
        .bind(sandbox.state.name())
        .bind(&sandbox.reason)
        .bind(&sandbox.container)
        .bind(&sandbox.workspace)
        .bind(&sandbox.token_hash[..])
        .bind(micros(sandbox.expires)?)
        .bind(micros(sandbox.updated)?)
        .bind(sandbox.removing)
        .bind(sandbox.keep_workspace)
        .bind(bounds::spec(&sandbox)?)
        .bind(&sandbox.id)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of)?;
    for kind in &change.tells {
        events::tell(&mut transaction, &sandbox, *kind, now).await?;
    }
    transaction.commit().await?;
    Ok(sandbox)
}

pub(super) async fn remove(database: &Database, id: &str, now: Timestamp) -> Result<bool> {
    let mut transaction = database.write().await?;
    let found = sqlx::query(SELECT_ONE).bind(id);
    let found = found.fetch_optional(&mut *transaction).await;
    let Some(found) = found.map_err(failure::of)? else {
        return Ok(false);
    };
    let deleted = EventKind::SandboxDeleted;
    events::tell(&mut transaction, &rows::sandbox(&found)?, deleted, now).await?;
    sqlx::query("DELETE FROM sandboxes WHERE id = ?")
        .bind(id)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of)?;
    transaction.commit().await?;
    Ok(true)
}
