use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, Timestamp};
use serde_json::Value;

use crate::error::Result;
use crate::records::{Project, ProjectPolicy};

/// The policies of projects. The catalog does not interpret a policy.
#[async_trait]
pub trait Policies {
    /// Returns the policy of a tenant's project.
    async fn policy(&self, tenant: TenantId, id: &ProjectId) -> Result<Option<ProjectPolicy>>;

    /// Sets the policy of a project if the present one has the expected version;
    /// returns the project with the next version. `NotFound`, `BeingRemoved`,
    /// `Changed`.
    async fn set_policy(
        &self,
        tenant: TenantId,
        id: &ProjectId,
        expected_version: u64,
        policy: &Value,
        now: Timestamp,
    ) -> Result<Project>;
}
