use elevo_catalog::Tenant;
use elevo_core::TenantId;

use crate::app::App;
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
            self.add_owner_key(tenant, "API_KEY of the settings", hash)
                .await?;
        }
        Ok(())
    }
}
