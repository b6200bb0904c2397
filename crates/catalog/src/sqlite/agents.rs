//! Statements on agents.

use async_trait::async_trait;
use elevo_core::{AgentId, TenantId};

use super::{SqliteCatalog, database, failure};
use crate::bounds::{self, micros};
use crate::catalog::Agents;
use crate::error::{Kind, Limit, Result};
use crate::records::Agent;

#[async_trait]
impl Agents for SqliteCatalog {
    async fn add_agent(&self, agent: &Agent) -> Result<()> {
        bounds::agent(agent)?;
        let mut transaction = self.database.write().await?;
        let count = sqlx::query("SELECT count(*) FROM agents WHERE tenant = ?");
        let count = count.bind(&agent.tenant.as_bytes()[..]);
        database::check_max_listed(&mut transaction, count, Limit::Agents).await?;
        sqlx::query("INSERT INTO agents (tenant, id, name, created) VALUES (?, ?, ?, ?)")
            .bind(&agent.tenant.as_bytes()[..])
            .bind(agent.id.as_str())
            .bind(&agent.name)
            .bind(micros(agent.created)?)
            .execute(&mut *transaction)
            .await
            .map_err(failure::of_adding(Kind::Agent))?;
        transaction.commit().await
    }

    async fn agents(&self, tenant: TenantId) -> Result<Vec<Agent>> {
        let agents = "SELECT tenant, id, name, created FROM agents WHERE tenant = ? \
                  ORDER BY created, id";
        sqlx::query_as(agents)
            .bind(&tenant.as_bytes()[..])
            .fetch_all(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn agent(&self, tenant: TenantId, id: &AgentId) -> Result<Option<Agent>> {
        let agent = "SELECT tenant, id, name, created FROM agents WHERE tenant = ? AND id = ?";
        sqlx::query_as(agent)
            .bind(&tenant.as_bytes()[..])
            .bind(id.as_str())
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn agent_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Agent>> {
        let agent = "SELECT tenant, id, name, created FROM agents WHERE tenant = ? AND name = ?";
        sqlx::query_as(agent)
            .bind(&tenant.as_bytes()[..])
            .bind(name)
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }
}
