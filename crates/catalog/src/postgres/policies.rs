//! Statements on policies of projects.

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, Timestamp};
use serde_json::Value;

use super::{PostgresCatalog, failure, projects};
use crate::bounds;
use crate::catalog::Policies;
use crate::error::{Error, Kind, Result};
use crate::records::{Project, ProjectPolicy};

#[async_trait]
impl Policies for PostgresCatalog {
    async fn policy(&self, tenant: TenantId, id: &ProjectId) -> Result<Option<ProjectPolicy>> {
        let select = "SELECT policy_version, policy FROM projects JOIN policies ON project = id \
                  WHERE tenant = $1 AND id = $2";
        sqlx::query_as(select)
            .bind(&tenant.as_bytes()[..])
            .bind(id.as_str())
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn set_policy(
        &self,
        tenant: TenantId,
        id: &ProjectId,
        expected_version: u64,
        policy: &Value,
        now: Timestamp,
    ) -> Result<Project> {
        let policy = bounds::policy(policy)?;
        let mut transaction = self.database.write().await?;
        let project = projects::require_not_removing(&mut transaction, tenant, id).await?;
        if project.policy_version != expected_version {
            let what = Kind::Project;
            return Err(Error::Changed { what });
        }
        let project = Project {
            policy_version: project.policy_version + 1,
            updated: bounds::truncated(now),
            ..project
        };
        bounds::project(&project)?;
        projects::update(&mut transaction, &project).await?;
        sqlx::query("UPDATE policies SET policy = $1 WHERE project = $2")
            .bind(policy)
            .bind(id.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(failure::of)?;
        self.database.commit(transaction).await?;
        Ok(project)
    }
}
