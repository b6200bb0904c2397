//! Tenants: creates, changes and suspends them, marks them for erasure, and
//! checks their limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use elevo_api as api;
use elevo_api::{Scope, format_size, parse_limit};
use elevo_catalog::Catalog;
use elevo_catalog::secret::ApiKeySecret;
use elevo_catalog::{Position, TENANT_LIMITS, Tenant, TenantLimits};
use elevo_core::{ErrorCode, TenantId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::app::access::keys::Keys;
use crate::app::access::names::check_name;
use crate::app::access::presence::{Presence, Presences};
use crate::app::access::principal::Principal;
use crate::app::pages::PageQuery;
use crate::app::requests::once::Once;
use crate::app::resources::Resources;
use crate::app::sandboxes::spec;
use crate::app::tenant_stores::TenantStores;
use crate::config::Config;
use crate::failure::{Failure, Result, short};
use crate::platform::audit::{Audit, Entry};
use crate::platform::clock;

/// The name of the key that the setting `API_KEY` creates.
pub(crate) const OF_THE_SETTINGS: &str = "API_KEY of the settings";

/// Manages the tenants, their limits and their suspension. Holds a short-lived
/// cache of tenants and the presences of the requests that work for each.
pub(crate) struct Tenants {
    audit: Arc<Audit>,
    catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    stores: Arc<TenantStores>,
    keys: Arc<Keys>,
    known_tenants: KnownTenants,
    presences: Presences,
    /// Notified when a request marks a tenant for erasure.
    erasures: Notify,
}

impl Tenants {
    pub(crate) fn new(resources: &Resources, keys: &Arc<Keys>) -> Self {
        Self {
            audit: resources.audit.clone(),
            catalog: resources.catalog.clone(),
            config: resources.config.clone(),
            keys: keys.clone(),
            stores: resources.stores.clone(),
            known_tenants: KnownTenants::default(),
            presences: Presences::default(),
            erasures: Notify::new(),
        }
    }

    /// Returns the id of the oldest tenant. If there is none, creates a tenant
    /// with the id that `elevo` uses in a store without a server, so that the
    /// snapshots of such a store are available.
    pub(crate) async fn first(&self) -> Result<TenantId> {
        let mut tenants = self.catalog.tenants().await?;
        tenants.sort_by_key(|tenant| tenant.created);
        if let Some(first) = tenants.first() {
            return Ok(first.id);
        }
        let tenant = Tenant::new(TenantId::LOCAL, "local", clock::now());
        self.catalog.add_tenant(&tenant).await?;
        Ok(tenant.id)
    }

    /// Records the tenant limits and the key `API_KEY` of the settings in the
    /// catalog.
    pub(crate) async fn adopt_given_key(&self) -> Result<()> {
        let tenant = self.first().await?;
        let limits = serde_json::to_string(&self.config.limits.tenant);
        let limits = limits.map_err(|error| Failure::internal(&error))?;
        self.catalog.set_setting(TENANT_LIMITS, &limits).await?;
        let Some(secret) = &self.config.api_key else {
            return Ok(());
        };
        let hash = crate::app::access::keys::hash_of(&secret.0);
        match self.catalog.key_of_any_tenant(&hash).await? {
            None => {
                self.keys
                    .add_owner_key(tenant, OF_THE_SETTINGS, hash, &Scope::ALL)
                    .await?;
            }
            Some(key) if key.revoked.is_some() => tracing::warn!(
                key = %key.id,
                "API_KEY is a revoked key, so requests with it are rejected; set API_KEY to \
                 another secret"
            ),
            Some(_) => {}
        }
        self.revoke_former_keys(tenant, &hash).await
    }

    /// Revokes the keys of earlier values of `API_KEY`: a secret that was
    /// replaced may have leaked.
    async fn revoke_former_keys(&self, tenant: TenantId, present: &[u8; 32]) -> Result<()> {
        for key in self.catalog.keys(tenant).await? {
            let is_former = key.name == OF_THE_SETTINGS && key.hash != *present;
            if !is_former || key.revoked.is_some() || key.agent.is_some() {
                continue;
            }
            let revoked = self.catalog.revoke_key(tenant, &key.id, clock::now());
            revoked.await?;
            tracing::info!(
                key = %key.id,
                "API_KEY has changed: the previous key is revoked"
            );
            let entry = Entry {
                event: "key.revoked",
                about: vec![("key_id", key.id.as_str().into())],
                ..Entry::default()
            };
            self.audit.tell(entry).await;
        }
        Ok(())
    }

    /// Creates a tenant, and a key for its owner. The key has every scope for
    /// the tenant and no scope for the whole server.
    pub(crate) async fn create(
        &self,
        who: &Principal,
        wish: api::CreateTenant,
        once: &Once,
    ) -> Result<api::NewTenant> {
        who.needs(Scope::System)?;
        check_name(&wish.name)?;
        let tenant = Tenant {
            limits: limits_in(wish.limits)?,
            ..Tenant::new(TenantId::new(once.bytes()), wish.name, clock::now())
        };
        match self.added_before(tenant.id, once).await? {
            true => {}
            false => self.catalog.add_tenant(&tenant).await?,
        }
        let secret = ApiKeySecret::from_random(clock::random());
        let own = [
            Scope::Keys,
            Scope::ProjectsAdmin,
            Scope::Reviews,
            Scope::Webhooks,
        ];
        let scopes = [&Scope::ORDINARY[..], &own].concat();
        self.keys
            .add_owner_key(tenant.id, "owner", secret.hash(), &scopes)
            .await?;
        Ok(api::NewTenant {
            tenant: out(tenant),
            secret: Some(secret.reveal()),
        })
    }

    /// Changes the name, the limits or the suspension of a tenant.
    pub(crate) async fn change(
        &self,
        who: &Principal,
        id: &str,
        wish: api::ChangeTenant,
    ) -> Result<api::Tenant> {
        who.needs(Scope::System)?;
        let mut tenant = self.find(id).await?;
        if tenant.erasing.is_some() {
            let message = "the tenant is being erased, which cannot be undone";
            return Err(Failure::new(ErrorCode::TenantNotFound, message));
        }
        if wish.suspended == Some(true) && tenant.id == who.tenant {
            let message = "a tenant cannot suspend itself: no key would be left to undo that";
            return Err(Failure::invalid(message));
        }
        if let Some(name) = wish.name {
            check_name(&name)?;
            tenant.name = name;
        }
        if let Some(limits) = wish.limits {
            tenant.limits = limits_in(limits)?;
        }
        if let Some(suspended) = wish.suspended {
            let since = tenant.suspended.unwrap_or_else(clock::now);
            tenant.suspended = suspended.then_some(since);
        }
        let changed = self.catalog.change_tenant(&tenant).await?;
        self.known_tenants.forget(tenant.id);
        self.keys.note_revocation();
        match changed {
            true => Ok(out(tenant)),
            false => Err(no_tenant(id)),
        }
    }

    /// Marks a tenant for erasure: its keys are rejected from now on, and a job
    /// deletes all its data. This cannot be undone.
    pub(crate) async fn begin_erasure(&self, who: &Principal, id: &str) -> Result<api::Tenant> {
        who.needs(Scope::System)?;
        let tenant = self.find(id).await?;
        if tenant.id == who.tenant {
            let message = "a tenant cannot erase itself";
            return Err(Failure::invalid(message));
        }
        if tenant.id == self.first().await? {
            let message = "the first tenant cannot be erased: the server's own key is in it";
            return Err(Failure::invalid(message));
        }
        let marked = self.catalog.begin_erasure(tenant.id, clock::now()).await?;
        let marked = marked.ok_or_else(|| no_tenant(id))?;
        self.stores.close(tenant.id);
        self.known_tenants.forget(tenant.id);
        self.keys.note_revocation();
        self.erasures.notify_one();
        Ok(out(marked))
    }

    /// Returns the tenant with the id `text`, or else the one with the name
    /// `text`.
    async fn find(&self, text: &str) -> Result<Tenant> {
        let mut all = self.catalog.tenants().await?;
        let by_id = all.iter().position(|tenant| tenant.id.to_string() == text);
        let by_name = || all.iter().position(|tenant| tenant.name == text);
        let found = by_id.or_else(by_name).ok_or_else(|| no_tenant(text))?;
        Ok(all.swap_remove(found))
    }

    /// Marks a request or job as working for a tenant until the result is
    /// dropped.
    pub(crate) fn enter(&self, tenant: TenantId) -> Presence {
        self.presences.enter(tenant)
    }

    /// Returns true if no request and no job works for a tenant.
    pub(crate) fn is_idle(&self, tenant: TenantId) -> bool {
        self.presences.is_empty(tenant)
    }

    /// Removes an erased tenant from the cache and from the presences.
    pub(crate) fn forget(&self, tenant: TenantId) {
        self.presences.forget(tenant);
        self.known_tenants.forget(tenant);
    }

    /// Waits until a request marks a tenant for erasure.
    pub(crate) async fn erasure_is_due(&self) {
        self.erasures.notified().await;
    }

    /// Returns the limits and the suspension of a tenant, as they were at most
    /// one second ago.
    pub(crate) async fn known(&self, id: TenantId) -> Result<KnownTenant> {
        if let Some(known) = self.known_tenants.get(id) {
            return Ok(known);
        }
        let missing = || Failure::new(ErrorCode::Unauthorized, "the tenant of this key was erased");
        let tenant = self.catalog.tenant(id).await?.ok_or_else(missing)?;
        Ok(self.note_known(&tenant))
    }

    /// Puts a tenant that was just read into the cache.
    pub(super) fn note_known(&self, tenant: &Tenant) -> KnownTenant {
        let known = KnownTenant {
            limits: Arc::new(tenant.limits.or(&self.config.limits.tenant)),
            is_suspended: tenant.suspended.is_some(),
        };
        self.known_tenants.put(tenant.id, known.clone());
        known
    }

    /// Fails if a tenant has reached its limit of stored bytes.
    pub(crate) async fn check_stored(&self, tenant: TenantId, limits: &TenantLimits) -> Result<()> {
        let Some(most) = limits.stored else {
            return Ok(());
        };
        let stored = self.stores.stored_bytes(tenant).await?;
        if stored < most {
            return Ok(());
        }
        let (stored, most) = (format_size(stored), format_size(most));
        let message = format!("this tenant has stored {stored}; its limit is {most}");
        let failure = Failure::new(ErrorCode::QuotaExceeded, message);
        let failure = failure.about("resource", "stored").about("limit", most);
        Err(failure.remediation(
            "Delete projects, versions or workspaces that are no longer needed; the space is \
             free after the next garbage collection. Or ask the operator to raise the limit.",
        ))
    }

    /// Returns true if a tenant is below its limit of stored bytes.
    pub(crate) async fn may_store(&self, tenant: TenantId) -> Result<bool> {
        let known = self.known(tenant).await?;
        Ok(self.check_stored(tenant, &known.limits).await.is_ok())
    }

    /// Returns true if an earlier attempt of this request has added the tenant.
    /// Revokes the owner key of that attempt, whose secret was never returned;
    /// the caller creates another.
    async fn added_before(&self, tenant: TenantId, once: &Once) -> Result<bool> {
        if !once.is_again() {
            return Ok(false);
        }
        let all = self.catalog.tenants().await?;
        let is_there = all.iter().any(|other| other.id == tenant);
        for key in self.catalog.keys(tenant).await? {
            self.catalog
                .revoke_key(tenant, &key.id, clock::now())
                .await?;
        }
        Ok(is_there)
    }

    pub(crate) async fn list(&self, who: &Principal, page: PageQuery) -> Result<api::TenantPage> {
        who.needs(Scope::System)?;
        let position = |tenant: &Tenant| Position {
            created: tenant.created,
            id: tenant.id.to_string(),
        };
        let mut tenants = self.catalog.tenants().await?;
        tenants.sort_by_key(|tenant| (tenant.created, tenant.id.to_string()));
        let (tenants, next) = page.cut_by_position(tenants, position)?;
        let items = tenants.into_iter().map(out).collect();
        Ok(api::TenantPage { items, next })
    }
}

fn out(tenant: Tenant) -> api::Tenant {
    api::Tenant {
        id: tenant.id.to_string(),
        name: tenant.name,
        created_at: clock::text(tenant.created),
        limits: limits_out(tenant.limits),
        suspended_at: tenant.suspended.map(clock::text),
        erasing_since: tenant.erasing.map(clock::text),
    }
}

fn no_tenant(text: &str) -> Failure {
    let message = format!("there is no tenant `{}`", short(text));
    Failure::new(ErrorCode::TenantNotFound, message)
}

fn limits_in(limits: api::TenantLimits) -> Result<TenantLimits> {
    let size = |text: Option<String>| {
        let size = text.map(|text| parse_limit(&text)).transpose();
        size.map_err(|error| Failure::invalid(error.to_string()))
    };
    Ok(TenantLimits {
        sandboxes: limits.sandboxes,
        memory: size(limits.memory)?,
        disk: size(limits.disk)?,
        stored: size(limits.stored)?,
        workspaces: limits.workspaces,
        projects: limits.projects,
        requests_per_minute: limits.requests_per_minute,
        runtimes: limits.runtimes,
        networks: limits.networks.map(spec::networks_in),
    })
}

pub(super) fn limits_out(limits: TenantLimits) -> api::TenantLimits {
    api::TenantLimits {
        sandboxes: limits.sandboxes,
        memory: limits.memory.map(format_size),
        disk: limits.disk.map(format_size),
        stored: limits.stored.map(format_size),
        workspaces: limits.workspaces,
        projects: limits.projects,
        requests_per_minute: limits.requests_per_minute,
        runtimes: limits.runtimes,
        networks: limits.networks.map(spec::networks_out),
    }
}

/// The limits and the suspension of a tenant, which every request needs.
#[derive(Clone, Debug)]
pub(crate) struct KnownTenant {
    pub(crate) limits: Arc<TenantLimits>,
    pub(crate) is_suspended: bool,
}

/// A cache of the tenants, so that not every request reads the catalog.
#[derive(Debug, Default)]
pub(crate) struct KnownTenants(Mutex<HashMap<TenantId, (Instant, KnownTenant)>>);

/// Maximum age of a cached tenant. It is short because another process can
/// change the catalog.
const KNOWN: Duration = Duration::from_secs(1);

impl KnownTenants {
    fn map(&self) -> MutexGuard<'_, HashMap<TenantId, (Instant, KnownTenant)>> {
        self.0.lock()
    }

    fn get(&self, id: TenantId) -> Option<KnownTenant> {
        let found = self.map().get(&id).cloned();
        let found = found.filter(|(since, _)| since.elapsed() < KNOWN);
        found.map(|(_, tenant)| tenant)
    }

    fn put(&self, id: TenantId, tenant: KnownTenant) {
        self.map().insert(id, (clock::instant(), tenant));
    }

    pub(crate) fn forget(&self, id: TenantId) {
        self.map().remove(&id);
    }
}
