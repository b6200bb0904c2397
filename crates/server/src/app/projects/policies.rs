//! Policies of projects: replaces the names of agents by their ids, compiles
//! policies, and caches the compiled ones.

use std::sync::Arc;

use elevo_catalog::{LandingKind, Project};
use elevo_core::{ErrorCode, ProjectId, TenantId};
use elevo_policy::{Agents, Bound, Compiled, Policy, PolicyError};
use quick_cache::sync::Cache;
use serde_json::Value;

use crate::app::projects::Projects;
use crate::failure::{Failure, Result};

/// A cache of compiled policies.
#[derive(Debug)]
pub(crate) struct Policies {
    /// The key is the project, the version of its policy, and true if
    /// `.gitignore` files may apply.
    compiled: Cache<(ProjectId, u64, bool), Arc<Compiled>>,
    /// Projects and policy versions whose unknown agents are in the log.
    warned: Cache<(ProjectId, u64), ()>,
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
    /// Logs once for each policy version the agents that it names but that do not
    /// exist. Earlier versions of the server did not check the names.
    fn warn_of_unknown_agents(&self, project: &Project, bound: &Bound) {
        let key = (project.id.clone(), project.policy_version);
        if self.warned.get(&key).is_some() {
            return;
        }
        self.warned.insert(key, ());
        let problems: Vec<_> = bound.problems.iter().map(ToString::to_string).collect();
        tracing::warn!(
            project = %project.id,
            problems = problems.join("; "),
            "the policy names agents that do not exist; correct their names and set the policy \
             with `elevo project policy`"
        );
    }
}

impl Projects {
    /// Returns the compiled policy of a project.
    pub(crate) async fn compiled_policy(&self, project: &Project) -> Result<Arc<Compiled>> {
        self.policy_by(project, true).await
    }

    /// Returns the compiled policy for a landing. `.gitignore` files apply only
    /// to changes from workspaces, where they keep build output from landing. A
    /// client that sends or imports a file by its path wants it to land.
    pub(crate) async fn policy_for(
        &self,
        project: &Project,
        kind: LandingKind,
    ) -> Result<Arc<Compiled>> {
        let from_workspace = matches!(kind, LandingKind::Merge | LandingKind::Resolve);
        self.policy_by(project, from_workspace).await
    }

    /// Returns the compiled policy of a project, from the cache if possible.
    /// Without `gitignore`, `.gitignore` files do not apply.
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
            // The policy names agents that do not exist, so it is not cached:
            // if an agent with such a name is created later, the policy must
            // apply to it.
            self.policies.warn_of_unknown_agents(project, &bound);
        }
        Ok(compiled)
    }

    /// Returns a policy in its stored form, with the ids of agents instead of
    /// their names. Rejects a policy that names an agent that the tenant does not
    /// have.
    pub(crate) async fn bound_policy(&self, tenant: TenantId, policy: &Policy) -> Result<Policy> {
        let bound = self.bind(tenant, policy).await?;
        bound.checked().map_err(|error| invalid(&error))
    }

    /// Replaces the names of agents in a policy by their ids. The result lists
    /// the names that the tenant does not have.
    pub(crate) async fn bind(&self, tenant: TenantId, policy: &Policy) -> Result<Bound> {
        let agents = match policy.names_agents() {
            true => self.catalog.agents(tenant).await?,
            false => Vec::new(),
        };
        let agents = agents
            .into_iter()
            .map(|agent| (agent.id.to_string(), agent.name));
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
