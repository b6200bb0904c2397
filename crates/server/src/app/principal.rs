use std::sync::Arc;
use std::time::Duration;

use elevo_api::Scope;
use elevo_catalog::{ApiKey, KeyLimits, Sandbox, TenantLimits};
use elevo_core::{ErrorCode, TenantId};

use crate::app::tenants::Presence;
use crate::app::{App, parts};
use crate::clock;
use crate::failure::{Failure, Result};

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

impl App {
    /// Returns the principal of a key.
    pub(crate) async fn authenticate(&self, secret: &str) -> Result<Principal> {
        let hash = super::keys::hash_of(secret);
        let key = self.catalog.key_by_hash(&hash).await?;
        let unknown = || Failure::new(ErrorCode::Unauthorized, "this key is not known");
        let key = key.ok_or_else(unknown)?;
        check_valid(&key)?;
        // Enter before checking the tenant: an erasure does the two in the
        // other order.
        let presence = self.presences.enter(key.tenant);
        let limits = self.limits_unless_suspended(key.tenant).await?;
        Ok(Principal::new(key, limits, presence))
    }

    /// Returns the limits of a tenant. Fails if it is suspended or being
    /// erased.
    async fn limits_unless_suspended(&self, tenant: TenantId) -> Result<Arc<TenantLimits>> {
        if self.homes.is_closed(tenant) {
            return Err(parts::being_erased());
        }
        let tenant = self.known_tenant(tenant).await?;
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
        let mut revocations = self.revocations.subscribe();
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
