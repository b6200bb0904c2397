//! Principals: the tenant, key and agent that a request acts for.

use std::sync::Arc;
use std::time::Duration;

use elevo_api::Scope;
use elevo_catalog::{ApiKey, Catalog, KeyLimits, Sandbox, TenantLimits};
use elevo_core::{ErrorCode, TenantId};

use crate::app::access::keys::Keys;
use crate::app::access::tenants::{Presence, Tenants};
use crate::app::resources::Resources;
use crate::app::tenant_stores::{self, TenantStores};
use crate::failure::{Failure, Result};
use crate::platform::audit::Asker;
use crate::platform::clock;

/// The tenant, key and agent that a request acts for.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    pub(crate) tenant: TenantId,
    /// The agent that the key acts for; the principal sees only its sandboxes.
    pub(crate) agent: Option<String>,
    pub(crate) key: String,
    /// The name of the key, for people.
    pub(crate) key_name: String,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) limits: KeyLimits,
    pub(crate) tenant_limits: Arc<TenantLimits>,
    /// The erasure of the tenant waits until this is dropped.
    pub(crate) _presence: Presence,
}

impl Principal {
    pub(crate) fn sees(&self, sandbox: &Sandbox) -> bool {
        let same_agent = self.agent.is_none() || self.agent == sandbox.agent;
        sandbox.tenant == self.tenant && same_agent
    }

    /// Whether this principal may decide on a change of `author`, which must not
    /// be its own agent.
    pub(crate) fn may_decide(&self, author: Option<&str>) -> bool {
        let is_own = self.agent.is_some() && self.agent.as_deref() == author;
        self.scopes.contains(&Scope::Reviews) && !is_own
    }

    /// Denies a principal without any of these scopes.
    pub(crate) fn needs_any(&self, scopes: &[Scope]) -> Result<()> {
        match scopes.iter().any(|scope| self.scopes.contains(scope)) {
            true => Ok(()),
            false => scopes.iter().try_for_each(|scope| self.needs(*scope)),
        }
    }

    /// Denies a principal without a scope.
    pub(crate) fn needs(&self, scope: Scope) -> Result<()> {
        if self.scopes.contains(&scope) {
            return Ok(());
        }
        let message = format!("this key lacks the scope `{}`", scope.name());
        Err(Failure::new(ErrorCode::Forbidden, message).about("scope", scope.name()))
    }
}

impl Principal {
    fn new(key: ApiKey, tenant_limits: Arc<TenantLimits>, presence: Presence) -> Self {
        let scopes = key.scopes.iter().filter_map(|scope| scope.parse().ok());
        Self {
            tenant: key.tenant,
            agent: key.agent,
            key: key.id,
            key_name: key.name,
            scopes: scopes.collect(),
            limits: key.limits,
            tenant_limits,
            _presence: presence,
        }
    }
}

impl From<&Principal> for Asker {
    fn from(who: &Principal) -> Self {
        Self {
            tenant: who.tenant.to_string(),
            key: who.key.clone(),
            agent: who.agent.clone(),
        }
    }
}

/// Maximum time between two checks of the key of an open stream. Another
/// process may have revoked the key, and wall clocks can be set.
const LOOK: Duration = Duration::from_secs(30);

/// Rejects a key that was revoked or has expired.
pub(crate) fn check_valid(key: &ApiKey) -> Result<()> {
    let refused = |why: &str| Failure::new(ErrorCode::Unauthorized, why);
    if key.revoked.is_some() {
        return Err(refused("this key was revoked"));
    }
    if key.expires.is_some_and(|expires| expires <= clock::now()) {
        return Err(refused("this key has expired"));
    }
    Ok(())
}

/// Authenticates keys, and watches that they stay valid.
pub(crate) struct Principals {
    catalog: Arc<dyn Catalog>,
    stores: Arc<TenantStores>,
    keys: Arc<Keys>,
    tenants: Arc<Tenants>,
}

impl Principals {
    pub(crate) fn new(resources: &Resources, keys: &Arc<Keys>, tenants: &Arc<Tenants>) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            stores: resources.stores.clone(),
            keys: keys.clone(),
            tenants: tenants.clone(),
        }
    }

    /// Returns the principal of a key.
    pub(crate) async fn authenticate(&self, secret: &str) -> Result<Principal> {
        let hash = crate::app::access::keys::hash_of(secret);
        let key = self.catalog.key_by_hash(&hash).await?;
        let unknown = || Failure::new(ErrorCode::Unauthorized, "this key is not known");
        let key = key.ok_or_else(unknown)?;
        check_valid(&key)?;
        // Enter before checking the tenant: an erasure does the two in the
        // other order.
        let presence = self.tenants.enter(key.tenant);
        let limits = self.limits_unless_suspended(key.tenant).await?;
        Ok(Principal::new(key, limits, presence))
    }

    /// Returns the limits of a tenant. Fails if it is suspended or being
    /// erased.
    async fn limits_unless_suspended(&self, tenant: TenantId) -> Result<Arc<TenantLimits>> {
        if self.stores.is_closed(tenant) {
            return Err(tenant_stores::being_erased());
        }
        let tenant = self.tenants.known(tenant).await?;
        match tenant.is_suspended {
            false => Ok(tenant.limits),
            true => {
                let message = "this tenant is suspended";
                Err(Failure::new(ErrorCode::TenantSuspended, message))
            }
        }
    }

    /// Waits until a key is revoked or expires. Streams and terminals end then:
    /// a connection that was opened with a key lasts no longer than the key.
    pub(crate) async fn invalid(&self, who: &Principal) -> Failure {
        let mut revocations = self.keys.revocations();
        loop {
            if let Err(failure) = self.limits_unless_suspended(who.tenant).await
                // An erased tenant has no row.
                && matches!(
                    failure.code,
                    ErrorCode::TenantSuspended | ErrorCode::Unauthorized
                )
            {
                return failure;
            }
            let found = self.catalog.key(who.tenant, &who.key).await;
            let wait = match found.map(|key| (key.as_ref().map(check_valid), key)) {
                Ok((Some(Err(failure)), _)) => return failure,
                Ok((Some(Ok(())), Some(key))) => {
                    let expires = key.expires.map(clock::until);
                    expires.map_or(LOOK, |expires| expires.min(LOOK))
                }
                // The row of a key that was used stays, so reading it has
                // failed.
                Ok(_) => LOOK,
                Err(error) => {
                    let cause = crate::failure::chain(&error);
                    tracing::warn!(key = who.key, cause, "cannot check the key of a stream");
                    LOOK
                }
            };
            // An error means that the server is about to stop.
            let _ = tokio::time::timeout(wait, revocations.changed()).await;
        }
    }
}
