//! Changes the name, the metadata and the expiry of a sandbox.

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::SandboxChange;
use elevo_core::SandboxId;

use crate::app::access::names::check_name;
use crate::app::access::principal::Principal;
use crate::app::sandboxes::{Sandboxes, metadata, spec};
use crate::failure::{Failure, Result};
use crate::platform::clock;

impl Sandboxes {
    pub(crate) async fn change(
        &self,
        who: &Principal,
        id: &SandboxId,
        wish: api::ChangeSandbox,
    ) -> Result<api::Sandbox> {
        who.needs(Scope::SandboxesWrite)?;
        if let Some(Some(name)) = &wish.name {
            check_name(name)?;
        }
        // Without the lock, one of two concurrent changes of the metadata would
        // be lost.
        let _held = self.locks.hold(id).await;
        let sandbox = self.visible(who, id).await?;
        let expires = match wish.expires_at {
            None => None,
            Some(text) => {
                let time = clock::parse(&text).ok_or_else(|| {
                    Failure::invalid("`expiresAt` is not a time such as 2026-01-15T10:00:00Z")
                })?;
                if time <= self.time.now().await? {
                    return Err(Failure::invalid(
                        "`expiresAt` is not in the future; to end the sandbox now, delete it",
                    ));
                }
                self.check_lifetime(&sandbox, time)?;
                Some(time)
            }
        };
        let pairs = match wish.metadata.is_empty() {
            true => None,
            false => Some(metadata::merged(sandbox.metadata.clone(), wish.metadata)?),
        };
        let change = SandboxChange {
            name: wish.name,
            metadata: pairs,
            expires,
            ..SandboxChange::default()
        };
        let changed = self.starts.change_as(&sandbox, &change).await?;
        spec::out(&changed)
    }
}
