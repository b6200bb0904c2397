//! Conversion between records and rows. A row that no record can have produced is
//! reported as damage.

mod projects;

use elevo_core::{SandboxState, TenantId, Timestamp};
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, Type};

use super::failure;
use crate::error::{Error, Result};
use crate::records::{Agent, ApiKey, Event, NewEvent, Sandbox, Template, Tenant, Webhook};

pub(super) use projects::*;

pub(super) fn tenant(row: &SqliteRow) -> Result<Tenant> {
    Ok(Tenant {
        id: tenant_id(row, "id")?,
        name: get(row, "name")?,
        created: time(row, "created")?,
        limits: json(row, "limits")?,
        suspended: optional_time(row, "suspended")?,
        erasing: optional_time(row, "erasing")?,
    })
}

pub(super) fn agent(row: &SqliteRow) -> Result<Agent> {
    Ok(Agent {
        id: get(row, "id")?,
        tenant: tenant_id(row, "tenant")?,
        name: get(row, "name")?,
        created: time(row, "created")?,
    })
}

pub(super) fn key(row: &SqliteRow) -> Result<ApiKey> {
    Ok(ApiKey {
        id: get(row, "id")?,
        tenant: tenant_id(row, "tenant")?,
        agent: get(row, "agent")?,
        name: get(row, "name")?,
        hash: bytes(row, "hash")?,
        scopes: json(row, "scopes")?,
        limits: json(row, "limits")?,
        created: time(row, "created")?,
        expires: optional_time(row, "expires")?,
        revoked: optional_time(row, "revoked")?,
    })
}

pub(super) fn sandbox(row: &SqliteRow) -> Result<Sandbox> {
    Ok(Sandbox {
        id: get(row, "id")?,
        tenant: tenant_id(row, "tenant")?,
        agent: get(row, "agent")?,
        key: get(row, "api_key")?,
        name: get(row, "name")?,
        state: state(row)?,
        reason: get(row, "reason")?,
        template: get(row, "template")?,
        container: get(row, "container")?,
        workspace: get(row, "workspace")?,
        token_hash: bytes(row, "token_hash")?,
        created: time(row, "created")?,
        expires: time(row, "expires")?,
        updated: time(row, "updated")?,
        removing: get(row, "removing")?,
        keep_workspace: get(row, "keep_workspace")?,
        spec: json(row, "spec")?,
    })
}

pub(super) fn template(row: &SqliteRow) -> Result<Template> {
    Ok(Template {
        name: get(row, "name")?,
        image: get(row, "image")?,
        description: get(row, "description")?,
        tags: json(row, "tags")?,
        size: number(row, "size")?,
        writable_root: get(row, "writable_root")?,
        created: time(row, "created")?,
    })
}

pub(super) fn event(row: &SqliteRow) -> Result<Event> {
    let kind: &str = get(row, "kind")?;
    Ok(Event {
        id: number(row, "id")?,
        event: NewEvent {
            tenant: tenant_id(row, "tenant")?,
            agent: get(row, "agent")?,
            kind: kind.parse().map_err(Error::Damaged)?,
            subject: get(row, "subject")?,
            at: time(row, "at")?,
            data: json(row, "data")?,
        },
    })
}

pub(super) fn webhook(row: &SqliteRow) -> Result<Webhook> {
    let tenant: Option<&[u8]> = get(row, "tenant")?;
    Ok(Webhook {
        id: get(row, "id")?,
        tenant: tenant.map(|_| tenant_id(row, "tenant")).transpose()?,
        agent: get(row, "agent")?,
        url: get(row, "url")?,
        secret: get(row, "secret")?,
        kinds: json(row, "kinds")?,
        created: time(row, "created")?,
    })
}

pub(super) fn state(row: &SqliteRow) -> Result<SandboxState> {
    let name: &str = get(row, "state")?;
    name.parse().map_err(Error::Damaged)
}

/// Reads all rows; returns the first error.
pub(super) fn all<T>(rows: &[SqliteRow], read: fn(&SqliteRow) -> Result<T>) -> Result<Vec<T>> {
    rows.iter().map(read).collect()
}

pub(super) fn get<'r, T>(row: &'r SqliteRow, column: &str) -> Result<T>
where
    T: Decode<'r, Sqlite> + Type<Sqlite>,
{
    row.try_get(column).map_err(failure::of)
}

fn tenant_id(row: &SqliteRow, column: &str) -> Result<TenantId> {
    bytes(row, column).map(TenantId::new)
}

pub(super) fn bytes<const N: usize>(row: &SqliteRow, column: &str) -> Result<[u8; N]> {
    let bytes: &[u8] = get(row, column)?;
    bytes.try_into().map_err(|_| damaged(column))
}

fn json<T: DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<T> {
    let text: &str = get(row, column)?;
    serde_json::from_str(text).map_err(|_| damaged(column))
}

/// The inverse of [`json`].
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Failed(Box::new(error)))
}

pub(super) fn time(row: &SqliteRow, column: &str) -> Result<Timestamp> {
    get(row, column).map(of_micros)
}

pub(super) fn optional_time(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(of_micros))
}

/// Reads a number that is never negative.
pub(super) fn number(row: &SqliteRow, column: &str) -> Result<u64> {
    let number: i64 = get(row, column)?;
    number.try_into().map_err(|_| damaged(column))
}

fn of_micros(micros: i64) -> Timestamp {
    let nanos = micros.rem_euclid(1_000_000) as u32 * 1000;
    Timestamp::new(micros.div_euclid(1_000_000), nanos).expect("less than a second")
}

fn damaged(column: &str) -> Error {
    Error::Damaged(format!("a value of `{column}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::micros;

    #[test]
    fn times_come_back_from_before_and_after_1970() {
        for kept in [i64::MIN, -1_000_001, -1, 0, 1, 999_999, i64::MAX] {
            // The earliest time can be read, but its seconds overflow in
            // microseconds.
            if kept != i64::MIN {
                assert_eq!(micros(of_micros(kept)).unwrap(), kept);
            }
        }
    }
}
