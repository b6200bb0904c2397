//! Requests that may come twice.

use elevo_core::{TenantId, Timestamp};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::database::Database;
use super::{failure, rows};
use crate::bounds::{self, micros};
use crate::error::{Error, Kind, Result};
use crate::request::{Begun, IdempotentRequest};

/// How many old requests go in one transaction: others write in between.
const FORGET: u32 = 500;

pub(super) async fn begin(database: &Database, request: &IdempotentRequest) -> Result<Begun> {
    bounds::request(request)?;
    let mut transaction = database.write().await?;
    if let Some(row) = find(&mut transaction, request).await? {
        return known(&row, request);
    }
    let note = "REPLACE INTO requests (tenant, idempotency_key, route, fingerprint, keep_until) \
                VALUES (?, ?, ?, ?, ?)";
    sqlx::query(note)
        .bind(&request.tenant.as_bytes()[..])
        .bind(&request.key)
        .bind(&request.route)
        .bind(&request.fingerprint[..])
        .bind(micros(request.keep_until)?)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of_adding(Kind::Request))?;
    transaction.commit().await?;
    Ok(Begun::New)
}

async fn find(
    transaction: &mut SqliteConnection,
    request: &IdempotentRequest,
) -> Result<Option<SqliteRow>> {
    let select = "SELECT route, fingerprint, status, body FROM requests \
                  WHERE tenant = ? AND idempotency_key = ? AND keep_until > ?";
    sqlx::query(select)
        .bind(&request.tenant.as_bytes()[..])
        .bind(&request.key)
        .bind(micros(request.now)?)
        .fetch_optional(&mut *transaction)
        .await
        .map_err(failure::of)
}

fn known(row: &SqliteRow, request: &IdempotentRequest) -> Result<Begun> {
    let route: &str = rows::get(row, "route")?;
    let fingerprint: [u8; 32] = rows::bytes(row, "fingerprint")?;
    if route != request.route || fingerprint != request.fingerprint {
        return Ok(Begun::Mismatch);
    }
    match rows::get::<Option<u16>>(row, "status")? {
        None => Ok(Begun::Running),
        Some(status) => Ok(Begun::Done {
            status,
            body: rows::get(row, "body")?,
        }),
    }
}

pub(super) async fn finish(
    database: &Database,
    tenant: TenantId,
    key: &str,
    status: u16,
    body: &[u8],
) -> Result<()> {
    bounds::body(body)?;
    let update = "UPDATE requests SET status = ?, body = ? \
                  WHERE tenant = ? AND idempotency_key = ? AND status IS NULL";
    let statement = sqlx::query(update)
        .bind(status)
        .bind(body)
        .bind(&tenant.as_bytes()[..])
        .bind(key);
    let done = database.run(statement).await?;
    if done == 0 {
        let what = Kind::Request;
        return Err(Error::NotFound { what });
    }
    Ok(())
}

pub(super) async fn abandon(database: &Database, tenant: TenantId, key: &str) -> Result<()> {
    let delete = "DELETE FROM requests WHERE tenant = ? AND idempotency_key = ? AND status IS NULL";
    let statement = sqlx::query(delete).bind(&tenant.as_bytes()[..]).bind(key);
    database.run(statement).await?;
    Ok(())
}

pub(super) async fn abandon_all(database: &Database) -> Result<u64> {
    let statement = sqlx::query("DELETE FROM requests WHERE status IS NULL");
    let done = database.run(statement).await?;
    Ok(done)
}

pub(super) async fn forget(database: &Database, now: Timestamp) -> Result<u64> {
    let delete = "DELETE FROM requests WHERE rowid IN \
                  (SELECT rowid FROM requests WHERE keep_until <= ? LIMIT ?)";
    let now = micros(now)?;
    let mut forgotten = 0;
    loop {
        let statement = sqlx::query(delete).bind(now).bind(FORGET);
        let done = database.run(statement).await?;
        forgotten += done;
        if done < u64::from(FORGET) {
            return Ok(forgotten);
        }
    }
}
