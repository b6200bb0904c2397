//! Describes the key of a request: its owner, its limits and its usage.

use elevo_api as api;

use crate::app::access::keys::{Keys, limits_out};
use crate::app::access::principal::Principal;
use crate::app::access::tenants;
use crate::failure::Result;

impl Keys {
    /// Returns the key of a principal, without the parts of its rates that are
    /// left.
    pub(crate) async fn me(&self, who: &Principal) -> Result<api::Me> {
        let tenant = self.catalog.tenant(who.tenant).await?;
        let agent = match &who.agent {
            Some(id) => self.catalog.agent(who.tenant, id).await?,
            None => None,
        };
        let used = self.catalog.count_of_key(who.tenant, &who.key).await?;
        let of_tenant = self.catalog.count_by_state(Some(who.tenant)).await?;
        let of_tenant: u64 = of_tenant.values().sum();
        let left = [
            (who.limits.sandboxes, used),
            (who.tenant_limits.sandboxes, of_tenant),
        ];
        let left = left
            .into_iter()
            .filter_map(|(limit, used)| Some(u64::from(limit?).saturating_sub(used)));
        Ok(api::Me {
            key: api::Named {
                id: who.key.to_string(),
                name: who.key_name.clone(),
            },
            tenant: api::Named {
                id: who.tenant.to_string(),
                name: tenant.map(|tenant| tenant.name).unwrap_or_default(),
            },
            agent: agent.map(|agent| api::Named {
                id: agent.id.to_string(),
                name: agent.name,
            }),
            scopes: who.scopes.iter().map(|scope| scope.name().into()).collect(),
            limits: api::EffectiveLimits {
                key: limits_out(who.limits.clone()),
                tenant: tenants::limits_out((*who.tenant_limits).clone()),
            },
            usage: api::Usage { sandboxes: used },
            left: api::Left {
                sandboxes: left.min(),
                ..api::Left::default()
            },
        })
    }
}
