use async_trait::async_trait;
use elevo_core::{AgentId, TenantId};

use crate::error::Result;
use crate::records::Agent;

/// The agents of tenants. An agent never changes and is deleted with its tenant.
#[async_trait]
pub trait Agents {
    /// Adds an agent. `Exists` if the tenant has an agent with that id or name,
    /// `NotFound` if the tenant does not exist, `LimitReached` if it has
    /// [`MAX_LISTED`](crate::MAX_LISTED) agents.
    async fn add_agent(&self, agent: &Agent) -> Result<()>;

    /// Returns all agents of a tenant, oldest first: by time of creation, then by
    /// id.
    async fn agents(&self, tenant: TenantId) -> Result<Vec<Agent>>;

    /// Returns a tenant's agent by id.
    async fn agent(&self, tenant: TenantId, id: &AgentId) -> Result<Option<Agent>>;

    /// Returns a tenant's agent by name.
    async fn agent_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Agent>>;
}
