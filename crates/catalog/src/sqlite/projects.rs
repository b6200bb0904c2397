//! Projects, single and in lists, and their policies.

use elevo_core::{TenantId, Timestamp};
use serde_json::Value;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::database::Database;
use super::{failure, lists, quotas, rows};
use crate::bounds::{self, MAX_POLICY_BYTES, micros};
use crate::error::{Error, Kind, Result};
use crate::query::Page;
use crate::records::{Project, ProjectChange, ProjectPolicy, ProjectQuery};

macro_rules! columns {
    () => {
        "id, tenant, name, description, head, sequence, policy_version, retention, \
         retention_count, created, updated, removing"
    };
}

const SELECT_ONE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM projects WHERE tenant = ? AND id = ?"
);

const SELECT_BY_NAME: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM projects WHERE tenant = ? AND name = ?"
);

const INSERT: &str = concat!(
    "INSERT INTO projects (",
    columns!(),
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
);

/// Everything that changes without a landing.
const UPDATE: &str = "UPDATE projects SET name = ?, description = ?, policy_version = ?, \
                      retention = ?, retention_count = ?, updated = ?, removing = ? WHERE id = ?";

pub(super) async fn add(database: &Database, project: &Project, policy: &Value) -> Result<()> {
    bounds::project(project)?;
    if project.sequence != 0 {
        return Err(Error::Refused("a new project has no landings".into()));
    }
    let policy = policy_text(policy)?;
    let (retention, count) = rows::retention_as_kept(project.retention);
    let mut transaction = database.write().await?;
    sqlx::query(INSERT)
        .bind(&project.id)
        .bind(&project.tenant.as_bytes()[..])
        .bind(&project.name)
        .bind(&project.description)
        .bind(&project.head.0.as_bytes()[..])
        .bind(0)
        .bind(project.policy_version as i64)
        .bind(retention)
        .bind(count)
        .bind(micros(project.created)?)
        .bind(micros(project.updated)?)
        .bind(project.removing)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of_adding(Kind::Project))?;
    sqlx::query("INSERT INTO policies (project, policy) VALUES (?, ?)")
        .bind(&project.id)
        .bind(policy)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of)?;
    quotas::check_projects(&mut transaction, project.tenant).await?;
    transaction.commit().await
}

fn policy_text(policy: &Value) -> Result<String> {
    bounds::json("a policy", policy, MAX_POLICY_BYTES)
}

pub(super) async fn get(
    database: &Database,
    tenant: TenantId,
    id: &str,
) -> Result<Option<Project>> {
    find(database, SELECT_ONE, tenant, id).await
}

pub(super) async fn by_name(
    database: &Database,
    tenant: TenantId,
    name: &str,
) -> Result<Option<Project>> {
    find(database, SELECT_BY_NAME, tenant, name).await
}

async fn find(
    database: &Database,
    select: &'static str,
    tenant: TenantId,
    text: &str,
) -> Result<Option<Project>> {
    let row = sqlx::query(select)
        .bind(&tenant.as_bytes()[..])
        .bind(text)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::project).transpose()
}

pub(super) async fn list(database: &Database, query: &ProjectQuery) -> Result<Page<Project>> {
    bounds::limit(query.limit)?;
    let mut count = QueryBuilder::new("SELECT count(*) FROM projects WHERE 1 = 1");
    push_filters(&mut count, query);
    let mut select =
        QueryBuilder::new(concat!("SELECT ", columns!(), " FROM projects WHERE 1 = 1"));
    push_filters(&mut select, query);
    lists::push_newest_first(&mut select, query.after.as_ref(), query.limit)?;
    lists::page(database, count, select, rows::project).await
}

fn push_filters(builder: &mut QueryBuilder<Sqlite>, query: &ProjectQuery) {
    if let Some(tenant) = query.tenant {
        builder.push(" AND tenant = ");
        builder.push_bind(tenant.as_bytes().to_vec());
    }
    if let Some(removing) = query.removing {
        builder.push(" AND removing = ").push_bind(removing);
    }
}

pub(super) async fn change(
    database: &Database,
    tenant: TenantId,
    id: &str,
    change: &ProjectChange,
    now: Timestamp,
) -> Result<Project> {
    let mut transaction = database.write().await?;
    let project = staying(&mut transaction, tenant, id).await?;
    let change = change.clone();
    let project = Project {
        name: change.name.unwrap_or(project.name),
        description: change.description.unwrap_or(project.description),
        retention: change.retention.unwrap_or(project.retention),
        updated: bounds::kept(now),
        ..project
    };
    bounds::project(&project)?;
    update(&mut transaction, &project).await?;
    transaction.commit().await?;
    Ok(project)
}

pub(super) async fn begin_removal(
    database: &Database,
    tenant: TenantId,
    id: &str,
    now: Timestamp,
) -> Result<Project> {
    let mut transaction = database.write().await?;
    let project = held(&mut transaction, tenant, id).await?;
    if !project.removing
        && let Some(sandbox) = sandbox_on(&mut transaction, tenant, id).await?
    {
        let what = Kind::Project;
        return Err(Error::InUse { what, sandbox });
    }
    let project = Project {
        removing: true,
        updated: bounds::kept(now),
        ..project
    };
    bounds::project(&project)?;
    update(&mut transaction, &project).await?;
    transaction.commit().await?;
    Ok(project)
}

/// Returns a sandbox that has a workspace of the project and is not being
/// removed.
async fn sandbox_on(
    connection: &mut SqliteConnection,
    tenant: TenantId,
    project: &str,
) -> Result<Option<String>> {
    let select = "SELECT sandboxes.id FROM workspaces JOIN sandboxes \
                  ON sandboxes.tenant = workspaces.tenant AND sandboxes.workspace = workspaces.id \
                  WHERE workspaces.tenant = ? AND workspaces.project = ? AND NOT sandboxes.removing \
                  LIMIT 1";
    sqlx::query_scalar(select)
        .bind(&tenant.as_bytes()[..])
        .bind(project)
        .fetch_optional(connection)
        .await
        .map_err(failure::of)
}

pub(super) async fn policy(
    database: &Database,
    tenant: TenantId,
    id: &str,
) -> Result<Option<ProjectPolicy>> {
    let select = "SELECT policy_version, policy FROM projects JOIN policies ON project = id \
                  WHERE tenant = ? AND id = ?";
    let row = sqlx::query(select)
        .bind(&tenant.as_bytes()[..])
        .bind(id)
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::policy).transpose()
}

pub(super) async fn set_policy(
    database: &Database,
    tenant: TenantId,
    id: &str,
    expected_version: u64,
    policy: &Value,
    now: Timestamp,
) -> Result<Project> {
    let policy = policy_text(policy)?;
    let mut transaction = database.write().await?;
    let project = staying(&mut transaction, tenant, id).await?;
    if project.policy_version != expected_version {
        let what = Kind::Project;
        return Err(Error::Changed { what });
    }
    let project = Project {
        policy_version: project.policy_version + 1,
        updated: bounds::kept(now),
        ..project
    };
    bounds::project(&project)?;
    update(&mut transaction, &project).await?;
    sqlx::query("UPDATE policies SET policy = ? WHERE project = ?")
        .bind(policy)
        .bind(id)
        .execute(&mut *transaction)
        .await
        .map_err(failure::of)?;
    transaction.commit().await?;
    Ok(project)
}

/// Returns a project that no one else can change until the transaction ends.
async fn held(connection: &mut SqliteConnection, tenant: TenantId, id: &str) -> Result<Project> {
    let row = sqlx::query(SELECT_ONE)
        .bind(&tenant.as_bytes()[..])
        .bind(id)
        .fetch_optional(connection)
        .await
        .map_err(failure::of)?;
    let what = Kind::Project;
    rows::project(&row.ok_or(Error::NotFound { what })?)
}

/// Returns a project likewise, if it is not being removed.
pub(super) async fn staying(
    connection: &mut SqliteConnection,
    tenant: TenantId,
    id: &str,
) -> Result<Project> {
    let project = held(connection, tenant, id).await?;
    if project.removing {
        let what = Kind::Project;
        return Err(Error::BeingRemoved { what });
    }
    Ok(project)
}

async fn update(connection: &mut SqliteConnection, project: &Project) -> Result<()> {
    let (retention, count) = rows::retention_as_kept(project.retention);
    sqlx::query(UPDATE)
        .bind(&project.name)
        .bind(&project.description)
        .bind(project.policy_version as i64)
        .bind(retention)
        .bind(count)
        .bind(micros(project.updated)?)
        .bind(project.removing)
        .bind(&project.id)
        .execute(connection)
        .await
        .map_err(failure::of_adding(Kind::Project))?;
    Ok(())
}
