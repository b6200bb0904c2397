//! The principal of a request, and checks of its scopes.

use std::sync::Arc;

use elevo_api::Scope;
use elevo_catalog::{ApiKey, KeyLimits, NodeId, Sandbox, TenantLimits};
use elevo_core::{AgentId, ErrorCode, KeyId, SandboxId, TenantId};
use parking_lot::Mutex;

use crate::app::access::presence::Presence;
use crate::failure::{Failure, Result};
use crate::platform::audit::Asker;

/// The tenant, key and agent that a request acts for.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    pub(crate) tenant: TenantId,
    /// The agent that the key is bound to. The principal then sees only the
    /// sandboxes of this agent.
    pub(crate) agent: Option<AgentId>,
    pub(crate) key: KeyId,
    /// The name of the key, which is recorded with its decisions on reviews.
    pub(crate) key_name: String,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) limits: KeyLimits,
    pub(crate) tenant_limits: Arc<TenantLimits>,
    pub(crate) asked: AskedFor,
    /// The erasure of the tenant waits until this is dropped.
    pub(crate) _presence: Presence,
}

/// The sandbox that a request is about, as it was when its key was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskedFor(Arc<Mutex<Option<Sandbox>>>);

impl AskedFor {
    pub(crate) fn new(sandbox: Option<Sandbox>) -> Self {
        Self(Arc::new(Mutex::new(sandbox)))
    }

    /// Returns the sandbox with this id, if it was read with the key. Only the
    /// first call finds it: by the next one the sandbox can have changed.
    pub(crate) fn take(&self, id: &SandboxId) -> Option<Sandbox> {
        let found = self.0.lock().take();
        found.filter(|sandbox| sandbox.id == *id)
    }

    /// Returns the node of the sandbox with this id, if it was read with the key.
    pub(crate) fn node(&self, id: &SandboxId) -> Option<NodeId> {
        let found = self.0.lock();
        let found = found.as_ref().filter(|sandbox| sandbox.id == *id);
        found.map(|sandbox| sandbox.node)
    }
}

impl Principal {
    pub(crate) fn sees(&self, sandbox: &Sandbox) -> bool {
        sandbox.tenant == self.tenant && self.sees_agent(sandbox.agent.as_ref())
    }

    /// Returns true if this principal may see the records of an agent, or of no
    /// agent.
    pub(crate) fn sees_agent(&self, agent: Option<&AgentId>) -> bool {
        self.agent.is_none() || self.agent.as_ref() == agent
    }

    /// Returns true if this principal may decide on a review of a change by the
    /// agent `author`. An agent must not decide on its own changes.
    pub(crate) fn may_decide(&self, author: Option<&AgentId>) -> bool {
        let is_own = self.agent.is_some() && self.agent.as_ref() == author;
        self.scopes.contains(&Scope::Reviews) && !is_own
    }

    /// Denies a principal that has none of these scopes.
    pub(crate) fn needs_any(&self, scopes: &[Scope]) -> Result<()> {
        match scopes.iter().any(|scope| self.scopes.contains(scope)) {
            true => Ok(()),
            false => scopes.iter().try_for_each(|scope| self.needs(*scope)),
        }
    }

    /// Denies a principal that does not have this scope.
    pub(crate) fn needs(&self, scope: Scope) -> Result<()> {
        if self.scopes.contains(&scope) {
            return Ok(());
        }
        let message = format!("this key lacks the scope `{}`", scope.name());
        Err(Failure::new(ErrorCode::Forbidden, message).about("scope", scope.name()))
    }
}

impl Principal {
    pub(super) fn new(key: ApiKey, tenant_limits: Arc<TenantLimits>, presence: Presence) -> Self {
        let scopes = key.scopes.iter().filter_map(|scope| scope.parse().ok());
        Self {
            tenant: key.tenant,
            agent: key.agent,
            key: key.id,
            key_name: key.name,
            scopes: scopes.collect(),
            limits: key.limits,
            tenant_limits,
            asked: AskedFor::default(),
            _presence: presence,
        }
    }
}

impl From<&Principal> for Asker {
    fn from(who: &Principal) -> Self {
        Self {
            tenant: who.tenant.to_string(),
            key: who.key.to_string(),
            agent: who.agent.as_ref().map(ToString::to_string),
        }
    }
}
