//! Policies, compiled once.

use std::sync::Arc;

use elevo_catalog::{LandingKind, Project};
use elevo_core::ErrorCode;
use elevo_policy::{Compiled, Policy};
use quick_cache::sync::Cache;
use serde_json::Value;

use crate::app::App;
use crate::failure::{Failure, Result};

/// Compiled policies that were used lately, by project and version, and
/// whether they follow `.gitignore` as the policy says or never.
#[derive(Debug)]
pub(crate) struct Policies(Cache<(String, u64, bool), Arc<Compiled>>);

impl Default for Policies {
    fn default() -> Self {
        Self(Cache::new(256))
    }
}

impl App {
    /// What a project's policy says now.
    pub(crate) async fn policy_of(&self, project: &Project) -> Result<Arc<Compiled>> {
        self.policy_by(project, true).await
    }

    /// What the policy says of a landing. Whoever names a file, or imports it,
    /// means it, also where a `.gitignore` would keep a build from landing.
    pub(super) async fn policy_for(
        &self,
        project: &Project,
        kind: LandingKind,
    ) -> Result<Arc<Compiled>> {
        let from_workspace = matches!(kind, LandingKind::Merge | LandingKind::Resolve);
        self.policy_by(project, from_workspace).await
    }

    async fn policy_by(&self, project: &Project, gitignore: bool) -> Result<Arc<Compiled>> {
        let key = (project.id.clone(), project.policy_version, gitignore);
        if let Some(known) = self.policies.0.get(&key) {
            return Ok(known);
        }
        let found = self.catalog.policy(project.tenant, &project.id).await?;
        let found = found.ok_or_else(|| super::no_project(&project.id))?;
        let mut policy = read(found.policy)?;
        policy.gitignore &= gitignore;
        let compiled = Arc::new(compile(&policy)?);
        let key = (project.id.clone(), found.version, gitignore);
        self.policies.0.insert(key, compiled.clone());
        Ok(compiled)
    }
}

pub(super) fn compile(policy: &Policy) -> Result<Compiled> {
    policy
        .compile()
        .map_err(|error| Failure::new(ErrorCode::PolicyInvalid, error.to_string()))
}

pub(super) fn read(policy: Value) -> Result<Policy> {
    serde_json::from_value(policy).map_err(|error| Failure::internal(&error))
}

pub(super) fn stored(policy: &Policy) -> Result<Value> {
    serde_json::to_value(policy).map_err(|error| Failure::internal(&error))
}
