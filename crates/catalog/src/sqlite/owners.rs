//! Tenants and their agents.

use elevo_core::TenantId;

use super::database::{self, Database};
use super::{failure, rows};
use crate::bounds::{self, micros};
use crate::error::{Kind, Limit, Result};
use crate::records::{Agent, Tenant};

macro_rules! tenant_columns {
    () => {
        "id, name, created, limits, suspended, erasing"
    };
}

pub(super) async fn add_tenant(database: &Database, tenant: &Tenant) -> Result<()> {
    bounds::tenant(tenant)?;
    let mut transaction = database.write().await?;
    let count = sqlx::query("SELECT count(*) FROM tenants");
    database::check_room(&mut transaction, count, Limit::Tenants).await?;
    let insert = "INSERT INTO tenants (id, name, created, limits, suspended) \
                  VALUES (?, ?, ?, ?, ?)";
    sqlx::query(insert)
        .bind(&tenant.id.as_bytes()[..])
        .bind(&tenant.name)
        .bind(micros(tenant.created)?)
        .bind(rows::to_json(&tenant.limits)?)
        .bind(tenant.suspended.map(micros).transpose()?)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of_adding(Kind::Tenant))?;
    transaction.commit().await
}

pub(super) async fn tenants(database: &Database) -> Result<Vec<Tenant>> {
    let select = concat!(
        "SELECT ",
        tenant_columns!(),
        " FROM tenants ORDER BY created, id"
    );
    let rows = sqlx::query(select)
        .fetch_all(database.readers())
        .await
        .map_err(failure::of)?;
    rows::all(&rows, rows::tenant)
}

pub(super) async fn tenant(database: &Database, id: TenantId) -> Result<Option<Tenant>> {
    let select = concat!("SELECT ", tenant_columns!(), " FROM tenants WHERE id = ?");
    let row = sqlx::query(select)
        .bind(&id.as_bytes()[..])
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::tenant).transpose()
}

pub(super) async fn change_tenant(database: &Database, tenant: &Tenant) -> Result<bool> {
    bounds::tenant(tenant)?;
    let update = "UPDATE tenants SET name = ?, limits = ?, suspended = ? \
                  WHERE id = ? AND erasing IS NULL";
    let statement = sqlx::query(update)
        .bind(&tenant.name)
        .bind(rows::to_json(&tenant.limits)?)
        .bind(tenant.suspended.map(micros).transpose()?)
        .bind(&tenant.id.as_bytes()[..]);
    Ok(database.run(statement).await? > 0)
}

pub(super) async fn add_agent(database: &Database, agent: &Agent) -> Result<()> {
    bounds::agent(agent)?;
    let mut transaction = database.write().await?;
    let count = sqlx::query("SELECT count(*) FROM agents WHERE tenant = ?");
    let count = count.bind(&agent.tenant.as_bytes()[..]);
    database::check_room(&mut transaction, count, Limit::Agents).await?;
    sqlx::query("INSERT INTO agents (tenant, id, name, created) VALUES (?, ?, ?, ?)")
        .bind(&agent.tenant.as_bytes()[..])
        .bind(&agent.id)
        .bind(&agent.name)
        .bind(micros(agent.created)?)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of_adding(Kind::Agent))?;
    transaction.commit().await
}

pub(super) async fn agents(database: &Database, tenant: TenantId) -> Result<Vec<Agent>> {
    let agents = "SELECT tenant, id, name, created FROM agents WHERE tenant = ? \
                  ORDER BY created, id";
    let rows = sqlx::query(agents)
        .bind(&tenant.as_bytes()[..])
        .fetch_all(database.readers())
        .await
        .map_err(failure::of)?;
    rows::all(&rows, rows::agent)
}

pub(super) async fn agent(
    database: &Database,
    tenant: TenantId,
    id: &str,
) -> Result<Option<Agent>> {
    let agent = "SELECT tenant, id, name, created FROM agents WHERE tenant = ? AND id = ?";
    let row = sqlx::query(agent)
        .bind(&tenant.as_bytes()[..])
        .bind(id)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::agent).transpose()
}
