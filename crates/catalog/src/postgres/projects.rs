//! Projects, and their removal in small transactions.

use async_trait::async_trait;
use elevo_core::{ProjectId, SandboxId, TenantId, Timestamp};
use elevo_postgres::Connection;
use serde_json::Value;
use sqlx::{Postgres, QueryBuilder};

use super::database::Database;
use super::values::searched;
use super::{PostgresCatalog, failure, pages, quotas};
use crate::bounds::{self, micros};
use crate::catalog::Projects;
use crate::columns::Column;
use crate::error::{Error, Kind, Result};
use crate::query::Page;
use crate::records::{Project, ProjectChange, ProjectQuery};

macro_rules! columns {
    () => {
        "id, tenant, name, description, head, sequence, policy_version, retention, \
         retention_count, created, updated, removing"
    };
}

/// Selects the id of a tenant's project: none if another tenant has the project.
macro_rules! own {
    () => {
        "(SELECT id FROM projects WHERE tenant = $1 AND id = $2)"
    };
}
pub(super) use own;

macro_rules! select_one {
    () => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM projects WHERE tenant = $1 AND id = $2"
        )
    };
}

const SELECT_ONE: &str = select_one!();

const SELECT_BY_NAME: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM projects WHERE tenant = $1 AND name = $2"
);

const INSERT: &str = concat!(
    "INSERT INTO projects (",
    columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
);

/// Sets the columns that change without a landing.
const UPDATE: &str = "UPDATE projects SET name = $1, description = $2, policy_version = $3, \
                      retention = $4, retention_count = $5, updated = $6, removing = $7 WHERE id = $8";

/// Maximum number of rows deleted in one transaction. Other changes can happen
/// between two transactions.
const BATCH: u32 = 500;

/// Delete the records of a project, a batch at a time. Rows that refer to others
/// are deleted first. Reviews and workspaces are selected by the tenant of the
/// project too, since their indexes begin with the tenant.
pub(super) const DELETE: [&str; 7] = [
    "DELETE FROM versions WHERE (project, sequence, path) IN \
        (SELECT project, sequence, path FROM versions WHERE project = $1 LIMIT $2)",
    "DELETE FROM landings WHERE (project, sequence) IN \
        (SELECT project, sequence FROM landings WHERE project = $1 LIMIT $2)",
    "DELETE FROM held_requests WHERE (project, request) IN \
        (SELECT project, request FROM held_requests WHERE project = $1 LIMIT $2)",
    "DELETE FROM dropped_versions WHERE (project, snapshot) IN \
        (SELECT project, snapshot FROM dropped_versions WHERE project = $1 LIMIT $2)",
    "DELETE FROM tags WHERE (project, name) IN \
        (SELECT project, name FROM tags WHERE project = $1 LIMIT $2)",
    "DELETE FROM reviews WHERE id IN (SELECT id FROM reviews \
        WHERE (tenant, project) = (SELECT tenant, id FROM projects WHERE id = $1) LIMIT $2)",
    "DELETE FROM workspaces WHERE id IN (SELECT id FROM workspaces \
        WHERE (tenant, project) = (SELECT tenant, id FROM projects WHERE id = $1) LIMIT $2)",
];

#[async_trait]
impl Projects for PostgresCatalog {
    async fn add_project(&self, project: &Project, policy: &Value) -> Result<()> {
        bounds::project(project)?;
        if project.sequence != 0 {
            return Err(Error::Refused("a new project has no landings".into()));
        }
        let policy = bounds::policy(policy)?;
        let (retention, count) = project.retention.to_columns();
        let mut transaction = self.database.write().await?;
        sqlx::query(INSERT)
            .bind(project.id.as_str())
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
        sqlx::query("INSERT INTO policies (project, policy) VALUES ($1, $2)")
            .bind(project.id.as_str())
            .bind(policy)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        quotas::check_projects(&mut transaction, project.tenant).await?;
        self.database.commit(transaction).await
    }

    async fn project(&self, tenant: TenantId, id: &ProjectId) -> Result<Option<Project>> {
        find(&self.database, SELECT_ONE, tenant, id).await
    }

    async fn project_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Project>> {
        find(&self.database, SELECT_BY_NAME, tenant, name).await
    }

    async fn projects(&self, query: &ProjectQuery) -> Result<Page<Project>> {
        bounds::limit(query.limit)?;
        let mut count = QueryBuilder::new("SELECT count(*) FROM projects WHERE 1 = 1");
        push_filters(&mut count, query);
        pages::page(&self.database, count, select_page(query)?).await
    }

    async fn change_project(
        &self,
        tenant: TenantId,
        id: &ProjectId,
        change: &ProjectChange,
        now: Timestamp,
    ) -> Result<Project> {
        let mut transaction = self.database.write().await?;
        let project = require_not_removing(&mut transaction, tenant, id).await?;
        let change = change.clone();
        let project = Project {
            name: change.name.unwrap_or(project.name),
            description: change.description.unwrap_or(project.description),
            retention: change.retention.unwrap_or(project.retention),
            updated: bounds::truncated(now),
            ..project
        };
        bounds::project(&project)?;
        update(&mut transaction, &project).await?;
        self.database.commit(transaction).await?;
        Ok(project)
    }

    async fn begin_removal(
        &self,
        tenant: TenantId,
        id: &ProjectId,
        now: Timestamp,
    ) -> Result<Project> {
        let mut transaction = self.database.write().await?;
        let project = require(&mut transaction, tenant, id).await?;
        if !project.removing
            && let Some(sandbox) = sandbox_on(&mut transaction, tenant, id).await?
        {
            let what = Kind::Project;
            return Err(Error::InUse { what, sandbox });
        }
        let project = Project {
            removing: true,
            updated: bounds::truncated(now),
            ..project
        };
        bounds::project(&project)?;
        update(&mut transaction, &project).await?;
        self.database.commit(transaction).await?;
        Ok(project)
    }

    async fn remove_project(&self, tenant: TenantId, id: &ProjectId) -> Result<bool> {
        match is_removing(&self.database, tenant, id).await? {
            None => return Ok(false),
            Some(false) => return Err(Error::Refused("the project is not being removed".into())),
            Some(true) => {}
        }
        for delete in DELETE {
            delete_all(&self.database, delete, id).await?;
        }
        let mut transaction = self.database.write().await?;
        sqlx::query("DELETE FROM policies WHERE project = $1")
            .bind(id.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        let done = sqlx::query("DELETE FROM projects WHERE tenant = $1 AND id = $2")
            .bind(&tenant.as_bytes()[..])
            .bind(id.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await?;
        Ok(done.rows_affected() > 0)
    }
}

async fn find(
    database: &Database,
    select: &'static str,
    tenant: TenantId,
    text: &str,
) -> Result<Option<Project>> {
    sqlx::query_as(select)
        .bind(&tenant.as_bytes()[..])
        .bind(searched(text))
        .fetch_optional(database.pool())
        .await
        .map_err(failure::of)
}

/// Selects a page of projects.
pub(super) fn select_page(query: &ProjectQuery) -> Result<QueryBuilder<Postgres>> {
    let mut select =
        QueryBuilder::new(concat!("SELECT ", columns!(), " FROM projects WHERE 1 = 1"));
    push_filters(&mut select, query);
    pages::push_newest_first(&mut select, query.after.as_ref(), query.limit)?;
    Ok(select)
}

fn push_filters(builder: &mut QueryBuilder<Postgres>, query: &ProjectQuery) {
    if let Some(tenant) = query.tenant {
        builder.push(" AND tenant = ");
        builder.push_bind(tenant.as_bytes().to_vec());
    }
    if let Some(removing) = query.removing {
        builder.push(" AND removing = ").push_bind(removing);
    }
}

/// Returns a sandbox that has a workspace of the project and is not being
/// removed.
async fn sandbox_on(
    connection: &mut Connection,
    tenant: TenantId,
    project: &ProjectId,
) -> Result<Option<SandboxId>> {
    let select = "SELECT sandboxes.id FROM workspaces JOIN sandboxes \
                  ON sandboxes.tenant = workspaces.tenant AND sandboxes.workspace = workspaces.id \
                  WHERE workspaces.tenant = $1 AND workspaces.project = $2 AND NOT sandboxes.removing \
                  LIMIT 1";
    let found: Option<Column<SandboxId>> = sqlx::query_scalar(select)
        .bind(&tenant.as_bytes()[..])
        .bind(project.as_str())
        .fetch_optional(connection)
        .await
        .map_err(failure::of)?;
    Ok(found.map(SandboxId::from))
}

/// Reads a project in the transaction of a change, so that no other change can
/// affect it until the transaction ends. `NotFound` if there is none.
async fn require(connection: &mut Connection, tenant: TenantId, id: &ProjectId) -> Result<Project> {
    let found = sqlx::query_as(concat!(select_one!(), " FOR NO KEY UPDATE"))
        .bind(&tenant.as_bytes()[..])
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
        .map_err(failure::of)?;
    let what = Kind::Project;
    found.ok_or(Error::NotFound { what })
}

/// Reads a project as [`require`] does. `BeingRemoved` if it is being removed.
pub(super) async fn require_not_removing(
    connection: &mut Connection,
    tenant: TenantId,
    id: &ProjectId,
) -> Result<Project> {
    let project = require(connection, tenant, id).await?;
    if project.removing {
        let what = Kind::Project;
        return Err(Error::BeingRemoved { what });
    }
    Ok(project)
}

pub(super) async fn update(connection: &mut Connection, project: &Project) -> Result<()> {
    let (retention, count) = project.retention.to_columns();
    sqlx::query(UPDATE)
        .bind(&project.name)
        .bind(&project.description)
        .bind(project.policy_version as i64)
        .bind(retention)
        .bind(count)
        .bind(micros(project.updated)?)
        .bind(project.removing)
        .bind(project.id.as_str())
        .execute(connection)
        .await
        .map_err(failure::of_adding(Kind::Project))?;
    Ok(())
}

async fn is_removing(
    database: &Database,
    tenant: TenantId,
    id: &ProjectId,
) -> Result<Option<bool>> {
    sqlx::query_scalar("SELECT removing FROM projects WHERE tenant = $1 AND id = $2")
        .bind(&tenant.as_bytes()[..])
        .bind(id.as_str())
        .fetch_optional(database.pool())
        .await
        .map_err(failure::of)
}

async fn delete_all(database: &Database, delete: &'static str, project: &ProjectId) -> Result<()> {
    loop {
        let statement = sqlx::query(delete)
            .bind(project.as_str())
            .bind(i64::from(BATCH));
        let done = database.run(statement).await?;
        if done < u64::from(BATCH) {
            return Ok(());
        }
    }
}
