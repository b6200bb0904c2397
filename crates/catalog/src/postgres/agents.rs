//! Statements on agents.

use async_trait::async_trait;
use elevo_core::{AgentId, TenantId};

use super::values::searched;
use super::{PostgresCatalog, database, failure, quotas};
use crate::bounds::{self, micros};
use crate::catalog::Agents;
use crate::error::{Kind, Limit, Result};
use crate::records::Agent;

#[async_trait]
impl Agents for PostgresCatalog {
    async fn add_agent(&self, agent: &Agent) -> Result<()> {
        bounds::agent(agent)?;
        let mut transaction = self.database.write().await?;
        quotas::lock_tenant(&mut transaction, agent.tenant).await?;
        let count = sqlx::query("SELECT count(*) FROM agents WHERE tenant = $1");
        let count = count.bind(&agent.tenant.as_bytes()[..]);
        database::check_max_listed(&mut transaction, count, Limit::Agents).await?;
        sqlx::query("INSERT INTO agents (tenant, id, name, created) VALUES ($1, $2, $3, $4)")
            .bind(&agent.tenant.as_bytes()[..])
            .bind(agent.id.as_str())
            .bind(&agent.name)
            .bind(micros(agent.created)?)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_adding(Kind::Agent))?;
        self.database.commit(transaction).await
    }

    async fn agents(&self, tenant: TenantId) -> Result<Vec<Agent>> {
        let agents = "SELECT tenant, id, name, created FROM agents WHERE tenant = $1 \
                  ORDER BY created, id";
        sqlx::query_as(agents)
            .bind(&tenant.as_bytes()[..])
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn agent(&self, tenant: TenantId, id: &AgentId) -> Result<Option<Agent>> {
        let agent = "SELECT tenant, id, name, created FROM agents WHERE tenant = $1 AND id = $2";
        sqlx::query_as(agent)
            .bind(&tenant.as_bytes()[..])
            .bind(id.as_str())
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn agent_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Agent>> {
        let agent = "SELECT tenant, id, name, created FROM agents WHERE tenant = $1 AND name = $2";
        sqlx::query_as(agent)
            .bind(&tenant.as_bytes()[..])
            .bind(searched(name))
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }
}
