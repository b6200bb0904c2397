use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Tenant;
use elevo_catalog::secret::ApiKeySecret;
use elevo_core::TenantId;

use crate::app::keys::check_name;
use crate::app::{App, Once, Principal};
use crate::clock;
use crate::failure::Result;

impl App {
    /// The first tenant, made if there is none: the one that a store used
    /// without a server has, so that its snapshots are there.
    pub async fn first_tenant(&self) -> Result<TenantId> {
        let mut tenants = self.catalog.tenants().await?;
        tenants.sort_by_key(|tenant| tenant.created);
        if let Some(first) = tenants.first() {
            return Ok(first.id);
        }
        let tenant = Tenant {
            id: TenantId::LOCAL,
            name: "local".into(),
            created: clock::now(),
        };
        self.catalog.add_tenant(&tenant).await?;
        Ok(tenant.id)
    }

    /// Makes the key that the settings give usable.
    pub(crate) async fn adopt_given_key(&self) -> Result<()> {
        let tenant = self.first_tenant().await?;
        let Some(secret) = &self.config.api_key else {
            return Ok(());
        };
        let hash = super::keys::hash_of(&secret.0);
        if self.catalog.key_by_hash(&hash).await?.is_none() {
            let scopes = &Scope::ALL;
            self.add_owner_key(tenant, "API_KEY of the settings", hash, scopes)
                .await?;
        }
        Ok(())
    }

    /// Adds a tenant, with a key for its owner: everything within the tenant,
    /// nothing that concerns the whole server.
    pub(crate) async fn create_tenant(
        &self,
        who: &Principal,
        wish: api::CreateTenant,
        once: &Once,
    ) -> Result<api::NewTenant> {
        who.needs(Scope::System)?;
        check_name(&wish.name)?;
        let tenant = Tenant {
            id: TenantId::new(once.bytes()),
            name: wish.name,
            created: clock::now(),
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
        self.add_owner_key(tenant.id, "owner", secret.hash(), &scopes)
            .await?;
        Ok(api::NewTenant {
            tenant: out(tenant),
            secret: Some(secret.reveal()),
        })
    }

    /// Whether an earlier attempt has added a tenant. The secret of its key was
    /// never shown: that key is revoked, and another takes its place.
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

    pub(crate) async fn tenants(&self, who: &Principal) -> Result<api::TenantList> {
        who.needs(Scope::System)?;
        let mut tenants = self.catalog.tenants().await?;
        tenants.sort_by_key(|tenant| tenant.created);
        Ok(api::TenantList {
            items: tenants.into_iter().map(out).collect(),
        })
    }
}

fn out(tenant: Tenant) -> api::Tenant {
    api::Tenant {
        id: tenant.id.to_string(),
        name: tenant.name,
        created_at: clock::text(tenant.created),
    }
}
