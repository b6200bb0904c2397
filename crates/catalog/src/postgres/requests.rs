//! Statements on requests with an idempotency key.

use async_trait::async_trait;
use elevo_core::Timestamp;
use elevo_postgres::Connection;

use super::database::{Database, Statement};
use super::{PostgresCatalog, failure};
use crate::bounds::{self, micros};
use crate::catalog::Requests;
use crate::columns::{Column, Optional};
use crate::error::{Error, Kind, Result};
use crate::records::{Begun, IdempotentRequest, RequestRun};

/// Maximum number of old requests deleted in one transaction. Other changes can
/// happen between two transactions.
const DELETE_BATCH: u32 = 500;

/// Releases the requests that a process runs.
pub(super) const RELEASE_OF: &str =
    "UPDATE requests SET process = NULL WHERE status IS NULL AND process = $1";

/// Releases the requests that no live process runs.
pub(super) const RELEASE_ALL_BUT: &str = "UPDATE requests SET process = NULL \
     WHERE status IS NULL AND process IS NOT NULL \
     AND process <> ALL($1)";

/// Deletes requests whose `keep_until` has passed.
pub(super) const DELETE_OLD: &str = "DELETE FROM requests WHERE (tenant, name) IN \
     (SELECT tenant, name FROM requests WHERE keep_until <= $1 LIMIT $2)";

/// Appends the condition that a process still runs the request.
macro_rules! if_running {
    ($statement:literal) => {
        concat!(
            $statement,
            " WHERE tenant = $1 AND name = $2 AND process = $3 AND status IS NULL"
        )
    };
}

#[derive(sqlx::FromRow)]
struct RequestRow {
    #[sqlx(try_from = "Column<[u8; 32]>")]
    fingerprint: [u8; 32],
    id: String,
    process: Option<String>,
    made: Option<String>,
    #[sqlx(try_from = "Optional<u16>")]
    status: Option<u16>,
    body: Option<Vec<u8>>,
}

#[async_trait]
impl Requests for PostgresCatalog {
    async fn begin(&self, request: &IdempotentRequest) -> Result<Begun> {
        bounds::request(request)?;
        let mut transaction = self.database.write().await?;
        // The insertion comes first: of concurrent ones, one succeeds, and the
        // others wait for it and then find its row.
        if insert(&mut transaction, request).await? {
            self.database.commit(transaction).await?;
            return Ok(Begun::New);
        }
        let begun = match find(&mut transaction, request).await? {
            Some(row) => known(row, request),
            None => return Err(Error::Busy),
        };
        match &begun {
            Begun::Again { .. } => take(&mut transaction, &request.run).await?,
            // Returns without a commit, since nothing was written.
            _ => return Ok(begun),
        }
        self.database.commit(transaction).await?;
        Ok(begun)
    }

    async fn note_made(&self, run: &RequestRun, made: &str) -> Result<()> {
        bounds::text("the note of a request", made)?;
        let update = sqlx::query(if_running!("UPDATE requests SET made = $4"));
        change(&self.database, bind_run(update, run).bind(made)).await
    }

    async fn finish(&self, run: &RequestRun, status: u16, body: Option<&[u8]>) -> Result<()> {
        bounds::body(body.unwrap_or_default())?;
        let update = sqlx::query(if_running!("UPDATE requests SET status = $4, body = $5"));
        let update = bind_run(update, run).bind(i64::from(status)).bind(body);
        change(&self.database, update).await
    }

    async fn release(&self, run: &RequestRun) -> Result<()> {
        let update = sqlx::query(if_running!("UPDATE requests SET process = NULL"));
        self.database.run(bind_run(update, run)).await.map(drop)
    }

    async fn abandon(&self, run: &RequestRun) -> Result<()> {
        let delete = sqlx::query(if_running!("DELETE FROM requests"));
        self.database.run(bind_run(delete, run)).await.map(drop)
    }

    async fn release_of(&self, process: &str) -> Result<u64> {
        self.database
            .run(sqlx::query(RELEASE_OF).bind(process))
            .await
    }

    async fn release_all_but(&self, alive: &[&str]) -> Result<u64> {
        let alive: Vec<String> = alive.iter().map(|&process| process.to_owned()).collect();
        self.database
            .run(sqlx::query(RELEASE_ALL_BUT).bind(alive))
            .await
    }

    async fn forget_idempotent(&self, now: Timestamp) -> Result<u64> {
        let now = micros(now)?;
        let mut forgotten = 0;
        loop {
            let statement = sqlx::query(DELETE_OLD)
                .bind(now)
                .bind(i64::from(DELETE_BATCH));
            let done = self.database.run(statement).await?;
            forgotten += done;
            if done < u64::from(DELETE_BATCH) {
                return Ok(forgotten);
            }
        }
    }
}

async fn find(
    transaction: &mut Connection,
    request: &IdempotentRequest,
) -> Result<Option<RequestRow>> {
    let select = "SELECT fingerprint, id, process, made, status, body FROM requests \
                  WHERE tenant = $1 AND name = $2 AND keep_until > $3 FOR UPDATE";
    sqlx::query_as(select)
        .bind(&request.run.tenant.as_bytes()[..])
        .bind(&request.run.name[..])
        .bind(micros(request.now)?)
        .fetch_optional(&mut *transaction)
        .await
        .map_err(failure::of)
}

fn known(row: RequestRow, request: &IdempotentRequest) -> Begun {
    if row.fingerprint != request.fingerprint {
        return Begun::Mismatch;
    }
    let RequestRow { id, made, body, .. } = row;
    if let Some(status) = row.status {
        return Begun::Done {
            id,
            made,
            status,
            body,
        };
    }
    match row.process {
        Some(process) if process != request.run.process => Begun::Running,
        _ => Begun::Again { id, made },
    }
}

/// Adds a request, in place of an old one; returns `false` if it is known.
async fn insert(transaction: &mut Connection, request: &IdempotentRequest) -> Result<bool> {
    let insert = "INSERT INTO requests (tenant, name, fingerprint, id, process, keep_until) \
                  VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, name) DO UPDATE SET \
                  fingerprint = excluded.fingerprint, id = excluded.id, process = excluded.process, \
                  made = NULL, keep_until = excluded.keep_until, status = NULL, body = NULL \
                  WHERE requests.keep_until <= $7";
    let inserted = sqlx::query(insert)
        .bind(&request.run.tenant.as_bytes()[..])
        .bind(&request.run.name[..])
        .bind(&request.fingerprint[..])
        .bind(&request.id)
        .bind(&request.run.process)
        .bind(micros(request.keep_until)?)
        .bind(micros(request.now)?)
        .execute(transaction)
        .await
        .map_err(failure::of_adding(Kind::Request))?;
    Ok(inserted.rows_affected() > 0)
}

async fn take(transaction: &mut Connection, run: &RequestRun) -> Result<()> {
    sqlx::query("UPDATE requests SET process = $1 WHERE tenant = $2 AND name = $3")
        .bind(&run.process)
        .bind(&run.tenant.as_bytes()[..])
        .bind(&run.name[..])
        .execute(transaction)
        .await
        .map_err(failure::of)?;
    Ok(())
}

fn bind_run<'a>(statement: Statement<'a>, run: &'a RequestRun) -> Statement<'a> {
    statement
        .bind(&run.tenant.as_bytes()[..])
        .bind(&run.name[..])
        .bind(&run.process)
}

/// Changes a request that must be running.
async fn change(database: &Database, statement: Statement<'_>) -> Result<()> {
    match database.run(statement).await? {
        0 => Err(Error::NotFound {
            what: Kind::Request,
        }),
        _ => Ok(()),
    }
}
