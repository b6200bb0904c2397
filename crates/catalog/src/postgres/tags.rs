//! Statements on tags.

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId};

use super::values::searched;
use super::{PostgresCatalog, database, failure, projects, retention};
use crate::bounds::{self, micros};
use crate::catalog::Tags;
use crate::error::{Error, Kind, Limit, Result};
use crate::records::Tag;

macro_rules! columns {
    () => {
        "project, name, snapshot, api_key, agent, message, created"
    };
}

pub(super) const SELECT_ONE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM tags WHERE project = ",
    projects::own!(),
    " AND name = $3"
);

pub(super) const SELECT_PAGE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM tags WHERE project = ",
    projects::own!(),
    " AND name > $3 ORDER BY name LIMIT $4"
);

const SET: &str = concat!(
    "INSERT INTO tags (",
    columns!(),
    ") VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (project, name) DO UPDATE SET \
     snapshot = excluded.snapshot, api_key = excluded.api_key, agent = excluded.agent, \
     message = excluded.message, created = excluded.created"
);

const DELETE: &str = concat!(
    "DELETE FROM tags WHERE project = ",
    projects::own!(),
    " AND name = $3"
);

#[async_trait]
impl Tags for PostgresCatalog {
    async fn set_tag(&self, tenant: TenantId, tag: &Tag, may_move: bool) -> Result<()> {
        bounds::tag(tag)?;
        let mut transaction = self.database.write().await?;
        projects::require_not_removing(&mut transaction, tenant, &tag.project).await?;
        let existing = sqlx::query(SELECT_ONE)
            .bind(&tenant.as_bytes()[..])
            .bind(tag.project.as_str())
            .bind(&tag.name)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failure::of)?;
        match existing {
            Some(_) if !may_move => return Err(Error::Exists { what: Kind::Tag }),
            Some(_) => {}
            None => {
                let count = sqlx::query("SELECT count(*) FROM tags WHERE project = $1");
                let count = count.bind(tag.project.as_str());
                database::check_max_listed(&mut transaction, count, Limit::Tags).await?;
            }
        }
        retention::check_not_dropped(&mut transaction, &tag.project, [tag.snapshot]).await?;
        sqlx::query(SET)
            .bind(tag.project.as_str())
            .bind(&tag.name)
            .bind(&tag.snapshot.0.as_bytes()[..])
            .bind(tag.key.as_str())
            .bind(tag.agent.as_deref())
            .bind(&tag.message)
            .bind(micros(tag.created)?)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await
    }

    async fn tag(&self, tenant: TenantId, project: &ProjectId, name: &str) -> Result<Option<Tag>> {
        sqlx::query_as(SELECT_ONE)
            .bind(&tenant.as_bytes()[..])
            .bind(project.as_str())
            .bind(searched(name))
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn tags(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Tag>> {
        bounds::limit(limit)?;
        sqlx::query_as(SELECT_PAGE)
            .bind(&tenant.as_bytes()[..])
            .bind(project.as_str())
            .bind(searched(after.unwrap_or_default()))
            .bind(i64::from(limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn remove_tag(&self, tenant: TenantId, project: &ProjectId, name: &str) -> Result<bool> {
        let statement = sqlx::query(DELETE)
            .bind(&tenant.as_bytes()[..])
            .bind(project.as_str())
            .bind(searched(name));
        let done = self.database.run(statement).await?;
        Ok(done > 0)
    }
}
