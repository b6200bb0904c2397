//! API keys.

use elevo_core::{TenantId, Timestamp};

use super::database::{self, Database};
use super::{failure, rows};
use crate::bounds::{self, micros};
use crate::error::{Kind, Limit, Result};
use crate::records::ApiKey;

macro_rules! columns {
    () => {
        "tenant, id, agent, name, hash, scopes, limits, created, expires, revoked"
    };
}

pub(super) async fn add(database: &Database, key: &ApiKey) -> Result<()> {
    bounds::key(key)?;
    let mut transaction = database.write().await?;
    let count = sqlx::query("SELECT count(*) FROM api_keys WHERE tenant = ?");
    let count = count.bind(&key.tenant.as_bytes()[..]);
    database::check_room(&mut transaction, count, Limit::Keys).await?;
    let insert = concat!(
        "INSERT INTO api_keys (",
        columns!(),
        ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    );
    sqlx::query(insert)
        .bind(&key.tenant.as_bytes()[..])
        .bind(&key.id)
        .bind(&key.agent)
        .bind(&key.name)
        .bind(&key.hash[..])
        .bind(rows::to_json(&key.scopes)?)
        .bind(rows::to_json(&key.limits)?)
        .bind(micros(key.created)?)
        .bind(key.expires.map(micros).transpose()?)
        .bind(key.revoked.map(micros).transpose()?)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of_adding(Kind::Key))?;
    transaction.commit().await
}

pub(super) async fn by_hash(database: &Database, hash: &[u8; 32]) -> Result<Option<ApiKey>> {
    let select = concat!("SELECT ", columns!(), " FROM api_keys WHERE hash = ?");
    let row = sqlx::query(select)
        .bind(&hash[..])
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::key).transpose()
}

pub(super) async fn get(database: &Database, tenant: TenantId, id: &str) -> Result<Option<ApiKey>> {
    let select = concat!(
        "SELECT ",
        columns!(),
        " FROM api_keys WHERE tenant = ? AND id = ?"
    );
    let row = sqlx::query(select)
        .bind(&tenant.as_bytes()[..])
        .bind(id)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::key).transpose()
}

pub(super) async fn list(database: &Database, tenant: TenantId) -> Result<Vec<ApiKey>> {
    let select = concat!(
        "SELECT ",
        columns!(),
        " FROM api_keys WHERE tenant = ? ORDER BY created, id"
    );
    let rows = sqlx::query(select)
        .bind(&tenant.as_bytes()[..])
        .fetch_all(database.readers())
        .await
        .map_err(failure::of)?;
    rows::all(&rows, rows::key)
}

pub(super) async fn revoke(
    database: &Database,
    tenant: TenantId,
    id: &str,
    at: Timestamp,
) -> Result<bool> {
    let update = "UPDATE api_keys SET revoked = ? WHERE tenant = ? AND id = ? AND revoked IS NULL";
    let statement = sqlx::query(update)
        .bind(micros(at)?)
        .bind(&tenant.as_bytes()[..])
        .bind(id);
    let done = database.run(statement).await?;
    Ok(done > 0)
}
