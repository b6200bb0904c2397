//! Authenticates the keys of requests, and detects when the key of an open
//! stream becomes invalid.

use crate::app::access::keys::Keys;
use crate::app::access::principal::{AskedFor, Principal};
use crate::app::access::tenants::Tenants;
use crate::app::resources::Resources;
use crate::app::tenant_stores::{self, TenantStores};
use crate::failure::{Failure, Result};
use crate::platform::clock;
use elevo_catalog::{ApiKey, Catalog, Tenant, TenantLimits};
use elevo_core::{ErrorCode, KeyId, SandboxId, TenantId};
use std::sync::Arc;
use std::time::Duration;

/// Maximum time between two checks of the key of an open stream. This process is
/// not notified if another process revokes the key or if the clock is set.
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

/// Authenticates the keys of requests, and detects when the key of an open
/// stream becomes invalid.
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

    /// Returns the principal of the key with this secret. Fails if the key is
    /// unknown, revoked or expired, or if its tenant may not send requests.
    ///
    /// Reads a sandbox that the request is about with the key, so that the
    /// catalog is asked once for both.
    pub(crate) async fn authenticate(
        &self,
        secret: &str,
        sandbox: Option<&SandboxId>,
    ) -> Result<Principal> {
        let hash = crate::app::access::keys::hash_of(secret);
        let access = self.catalog.access_of_any_tenant(&hash, sandbox).await?;
        let unknown = || Failure::new(ErrorCode::Unauthorized, "this key is not known");
        let access = access.ok_or_else(unknown)?;
        let mut who = self.admit(access.key, Some(access.tenant)).await?;
        who.asked = AskedFor::new(access.sandbox);
        Ok(who)
    }

    /// Returns true if a text is the secret of a key, valid or not.
    pub(crate) async fn is_key(&self, text: &str) -> Result<bool> {
        let hash = crate::app::access::keys::hash_of(text);
        Ok(self.catalog.key_of_any_tenant(&hash).await?.is_some())
    }

    /// Returns the principal of a key that a request authenticated with before,
    /// under the same conditions as [`authenticate`](Self::authenticate).
    pub(crate) async fn again(&self, tenant: TenantId, key: &KeyId) -> Result<Principal> {
        let key = self.catalog.key(tenant, key).await?;
        let gone = || Failure::new(ErrorCode::Unauthorized, "this key no longer exists");
        self.admit(key.ok_or_else(gone)?, None).await
    }

    async fn admit(&self, key: ApiKey, tenant: Option<Tenant>) -> Result<Principal> {
        check_valid(&key)?;
        // The presence must exist before the tenant is checked. An erasure
        // first marks the tenant and then checks for presences, so one of the
        // two sees the other.
        let presence = self.tenants.enter(key.tenant);
        if let Some(tenant) = tenant {
            self.tenants.note_known(&tenant);
        }
        let limits = self.limits_unless_suspended(key.tenant).await?;
        Ok(Principal::new(key, limits, presence))
    }

    /// Returns the limits of a tenant. Fails if the tenant is suspended or being
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

    /// Waits until the key of a principal is revoked or expires, or until its
    /// tenant is suspended or erased. Returns the reason. The caller then
    /// closes its stream or terminal, so that no connection outlasts the key
    /// that opened it.
    pub(crate) async fn invalid(&self, who: &Principal) -> Failure {
        let mut revocations = self.keys.revocations();
        loop {
            if let Err(failure) = self.limits_unless_suspended(who.tenant).await
                // `Unauthorized` means that the tenant was erased, because its
                // row is missing. Other codes mean that the catalog could not
                // be read.
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
                // The row of the key is missing, so its tenant was erased. The
                // next check of the tenant returns that failure.
                Ok(_) => LOOK,
                Err(error) => {
                    let cause = crate::failure::chain(&error);
                    tracing::warn!(
                        key = %who.key,
                        cause,
                        "cannot check whether the key of a stream is still valid"
                    );
                    LOOK
                }
            };
            // The loop checks the key again after a revocation, or after `wait`
            // at the latest.
            let _ = tokio::time::timeout(wait, revocations.changed()).await;
        }
    }
}
