//! Policies, compiled once.

use std::sync::Arc;

use elevo_catalog::{LandingKind, Project};
use elevo_core::{ErrorCode, TenantId};
use elevo_policy::{Agents, Bound, Compiled, Policy, PolicyError};
use quick_cache::sync::Cache;
use serde_json::Value;

use crate::app::projects::Projects;
use crate::failure::{Failure, Result};

/// Compiled policies that were used recently.
#[derive(Debug)]
pub(crate) struct Policies {
    /// By project, version, and whether `.gitignore` files may apply.
    compiled: Cache<(String, u64, bool), Arc<Compiled>>,
    /// Projects and policy versions whose unknown agents were logged.
    warned: Cache<(String, u64), ()>,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            compiled: Cache::new(256),
            warned: Cache::new(256),
        }
    }
}

impl Policies {
    /// Logs the agents that a stored policy names and that do not exist, once.
    /// Older servers stored any name.
    fn warn_of_unknown_agents(&self, project: &Project, bound: &Bound) {
        let key = (project.id.clone(), project.policy_version);
        if self.warned.get(&key).is_some() {
            return;
        }
        self.warned.insert(key, ());
        let problems: Vec<_> = bound.problems.iter().map(ToString::to_string).collect();
        tracing::warn!(
            project = project.id,
            problems = problems.join("; "),
            "the policy names agents that do not exist; set it again with `elevo project policy`"
        );
    }
}

impl Projects {
    /// Returns the compiled policy of a project.
    pub(crate) async fn compiled_policy(&self, project: &Project) -> Result<Arc<Compiled>> {
        self.policy_by(project, true).await
    }

    /// Returns the policy for a landing. `.gitignore` files apply only to
    /// changes of workspaces, where they keep build output from landing: a
    /// client that names or imports a file means it.
    pub(crate) async fn policy_for(
        &self,
        project: &Project,
        kind: LandingKind,
    ) -> Result<Arc<Compiled>> {
        let from_workspace = matches!(kind, LandingKind::Merge | LandingKind::Resolve);
        self.policy_by(project, from_workspace).await
    }

    async fn policy_by(&self, project: &Project, gitignore: bool) -> Result<Arc<Compiled>> {
        let key = (project.id.clone(), project.policy_version, gitignore);
        if let Some(known) = self.policies.compiled.get(&key) {
            return Ok(known);
        }
        let found = self.catalog.policy(project.tenant, &project.id).await?;
        let found = found.ok_or_else(|| crate::app::missing::no_project(&project.id))?;
        let mut policy = read(found.policy)?;
        policy.gitignore &= gitignore;
        let bound = self.bind(project.tenant, &policy).await?;
        let compiled = Arc::new(compile(&bound.policy)?);
        if bound.problems.is_empty() {
            let key = (project.id.clone(), found.version, gitignore);
            self.policies.compiled.insert(key, compiled.clone());
        } else {
            // Not cached, so that the policy binds an agent that is created
            // later with such a name.
            self.policies.warn_of_unknown_agents(project, &bound);
        }
        Ok(compiled)
    }

    /// Returns a policy in its stored form, with ids for names. Rejects a
    /// policy that names an agent unknown to the tenant.
    pub(crate) async fn bound_policy(&self, tenant: TenantId, policy: &Policy) -> Result<Policy> {
        let bound = self.bind(tenant, policy).await?;
        bound.checked().map_err(|error| invalid(&error))
    }

    pub(crate) async fn bind(&self, tenant: TenantId, policy: &Policy) -> Result<Bound> {
        let agents = match policy.names_agents() {
            true => self.catalog.agents(tenant).await?,
            false => Vec::new(),
        };
        let agents = agents.into_iter().map(|agent| (agent.id, agent.name));
        Ok(policy.bind(&agents.collect::<Agents>()))
    }
}

pub(crate) fn compile(policy: &Policy) -> Result<Compiled> {
    policy.compile().map_err(|error| invalid(&error))
}

fn invalid(error: &PolicyError) -> Failure {
    Failure::new(ErrorCode::PolicyInvalid, error.to_string())
}

pub(crate) fn read(policy: Value) -> Result<Policy> {
    serde_json::from_value(policy).map_err(|error| Failure::internal(&error))
}

pub(crate) fn stored(policy: &Policy) -> Result<Value> {
    serde_json::to_value(policy).map_err(|error| Failure::internal(&error))
}
