use elevo_core::{AgentId, KeyId, TenantId, Timestamp};
use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};

use super::{ApiKey, KeyLimits, Sandbox, Tenant, TenantLimits};
use crate::columns::{Column, Optional};

/// The records that decide whether a client may use a sandbox, all of one
/// moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The key of the client.
    pub key: ApiKey,
    /// The tenant of the key.
    pub tenant: Tenant,
    /// The sandbox that was asked for, if the tenant has it.
    pub sandbox: Option<Sandbox>,
}

/// The key and its tenant. All three records have columns with the same names, so
/// only those of the sandbox keep theirs.
#[derive(sqlx::FromRow)]
struct Owner {
    #[sqlx(try_from = "Column<KeyId>")]
    key_id: KeyId,
    #[sqlx(try_from = "Optional<AgentId>")]
    key_agent: Option<AgentId>,
    key_name: String,
    #[sqlx(try_from = "Column<[u8; 32]>")]
    key_hash: [u8; 32],
    #[sqlx(try_from = "Column<Vec<String>>")]
    key_scopes: Vec<String>,
    #[sqlx(try_from = "Column<KeyLimits>")]
    key_limits: KeyLimits,
    #[sqlx(try_from = "Column<Timestamp>")]
    key_created: Timestamp,
    #[sqlx(try_from = "Optional<Timestamp>")]
    key_expires: Option<Timestamp>,
    #[sqlx(try_from = "Optional<Timestamp>")]
    key_revoked: Option<Timestamp>,
    #[sqlx(try_from = "Column<TenantId>")]
    tenant_id: TenantId,
    tenant_name: String,
    #[sqlx(try_from = "Column<Timestamp>")]
    tenant_created: Timestamp,
    #[sqlx(try_from = "Column<TenantLimits>")]
    tenant_limits: TenantLimits,
    #[sqlx(try_from = "Optional<Timestamp>")]
    tenant_suspended: Option<Timestamp>,
    #[sqlx(try_from = "Optional<Timestamp>")]
    tenant_erasing: Option<Timestamp>,
}

/// The columns of a key `own` and its tenant `owner`, followed by those of the
/// sandbox `found`.
macro_rules! access_columns {
    () => {
        "own.id AS key_id, own.agent AS key_agent, own.name AS key_name, own.hash AS key_hash, \
         own.scopes AS key_scopes, own.limits AS key_limits, own.created AS key_created, \
         own.expires AS key_expires, own.revoked AS key_revoked, owner.id AS tenant_id, \
         owner.name AS tenant_name, owner.created AS tenant_created, \
         owner.limits AS tenant_limits, owner.suspended AS tenant_suspended, \
         owner.erasing AS tenant_erasing, found.*"
    };
}
pub(crate) use access_columns;

impl From<Owner> for (ApiKey, Tenant) {
    fn from(row: Owner) -> Self {
        let key = ApiKey {
            id: row.key_id,
            tenant: row.tenant_id,
            agent: row.key_agent,
            name: row.key_name,
            hash: row.key_hash,
            scopes: row.key_scopes,
            limits: row.key_limits,
            created: row.key_created,
            expires: row.key_expires,
            revoked: row.key_revoked,
        };
        let tenant = Tenant {
            id: row.tenant_id,
            name: row.tenant_name,
            created: row.tenant_created,
            limits: row.tenant_limits,
            suspended: row.tenant_suspended,
            erasing: row.tenant_erasing,
        };
        (key, tenant)
    }
}

impl<'r, R: Row> FromRow<'r, R> for Access
where
    Owner: FromRow<'r, R>,
    Sandbox: FromRow<'r, R>,
    &'static str: ColumnIndex<R>,
    Option<String>: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        let (key, tenant) = Owner::from_row(row)?.into();
        let sandbox = match row.try_get::<Option<String>, _>("id")? {
            Some(_) => Some(Sandbox::from_row(row)?),
            None => None,
        };
        Ok(Self {
            key,
            tenant,
            sandbox,
        })
    }
}
