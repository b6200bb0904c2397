//! Seals the environment variables of sandboxes and the secrets of webhooks
//! before the catalog stores them, and unseals them for their use.

use std::collections::BTreeMap;
use std::sync::Arc;

use elevo_catalog::Catalog;
use elevo_catalog::{Sandbox, SandboxChange, Webhook};
use elevo_core::TenantId;
use serde_json::Value;

use crate::app::resources::Resources;
use crate::app::sandboxes::rows::all_sandboxes;
use crate::app::sandboxes::spec::Spec;
use crate::failure::{Failure, Result};
use crate::platform::clock;
use crate::platform::vault::{Belonging, Vault, is_sealed};

type Variables = BTreeMap<String, String>;

/// The field of a spec that holds the sealed variables.
const SEALED: &str = "variables";
/// The field of a spec that holds plain variables, in rows of older versions.
const PLAIN: &str = "envs";

/// The setting of the catalog with the sealed secret of links to ports.
const PORT_LINKS: &str = "port_links";

/// Seals and unseals the environment variables of sandboxes and the secrets of
/// webhooks.
pub(crate) struct Secrets {
    catalog: Arc<dyn Catalog>,
    vault: Vault,
}

impl Secrets {
    pub(crate) fn new(resources: &Resources) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            vault: Vault::new(
                resources.config.secrets_key_file.clone(),
                resources.catalog.clone(),
            ),
        }
    }

    /// Reads the keys of the vault. Secrets that are plain or sealed with
    /// another key are sealed with the current key.
    pub(crate) async fn open(&self) -> anyhow::Result<()> {
        self.vault.open().await?;
        let noted = self
            .catalog
            .setting(crate::platform::vault::SECRETS_KEY)
            .await?;
        let present = self.vault.present_key();
        // The catalog records the key of the last complete sealing, so an
        // ordinary start does not read all rows.
        if noted.is_some() && noted.as_deref() == present.as_ref().map(|id| id.as_str()) {
            return Ok(());
        }
        let sealed = self.seal_sandboxes().await? + self.seal_webhooks().await?;
        self.vault.note_key().await?;
        if sealed > 0 {
            tracing::info!(sealed, "encrypted the stored secrets with the current key");
        }
        Ok(())
    }

    /// Returns the sealed variables; `None` if there are no variables.
    pub(crate) async fn seal_variables(
        &self,
        tenant: TenantId,
        variables: &Variables,
    ) -> Result<Option<String>> {
        if variables.is_empty() {
            return Ok(None);
        }
        let json = serde_json::to_vec(variables).map_err(|error| Failure::internal(&error))?;
        let sealed = self.vault.seal(Belonging::variables(tenant), &json);
        sealed.await.map(Some)
    }

    /// Returns the variables of a command: those of its sandbox, overridden by
    /// `own`.
    pub(crate) fn with_variables(&self, sandbox: &Sandbox, own: Variables) -> Result<Variables> {
        let Some(sealed) = Spec::of(sandbox)?.variables else {
            return Ok(own);
        };
        let json = self
            .vault
            .unseal(Belonging::variables(sandbox.tenant), &sealed)?;
        let variables = serde_json::from_slice::<Variables>(&json);
        let mut variables = variables.map_err(|error| Failure::internal(&error))?;
        variables.extend(own);
        Ok(variables)
    }

    /// Seals the secret of a webhook. An empty secret stays empty.
    pub(crate) async fn seal_secret(&self, belonging: Belonging, secret: &str) -> Result<String> {
        match secret {
            "" => Ok(String::new()),
            secret => self.vault.seal(belonging, secret.as_bytes()).await,
        }
    }

    /// Returns the secret that signs links to ports. Creates it if there is none,
    /// or if the key of the stored one is lost; earlier links are then invalid.
    pub(crate) async fn port_link_secret(&self) -> Result<[u8; 32]> {
        let belonging = Belonging::port_links();
        if let Some(sealed) = self.catalog.setting(PORT_LINKS).await?
            && let Ok(secret) = self.vault.unseal(belonging, &sealed)
            && let Ok(secret) = secret.try_into()
        {
            return Ok(secret);
        }
        let secret: [u8; 32] = clock::random();
        let sealed = self.vault.seal(belonging, &secret).await?;
        self.catalog.set_setting(PORT_LINKS, &sealed).await?;
        Ok(secret)
    }

    /// Returns the secret that signs the deliveries of a webhook, if it has
    /// one.
    pub(crate) fn secret_of(&self, webhook: &Webhook) -> Result<Option<String>> {
        if webhook.secret.is_empty() {
            return Ok(None);
        }
        let belonging = Belonging::webhook(webhook.tenant);
        self.unseal_secret(belonging, &webhook.secret).map(Some)
    }

    /// Unseals a secret of a webhook.
    pub(crate) fn unseal_secret(&self, belonging: Belonging, sealed: &str) -> Result<String> {
        let secret = self.vault.unseal(belonging, sealed)?;
        String::from_utf8(secret).map_err(|error| Failure::internal(&error))
    }

    async fn seal_sandboxes(&self) -> Result<usize> {
        let mut sealed = 0;
        for sandbox in all_sandboxes(&*self.catalog).await? {
            let Some(spec) = self.sealed_again(&sandbox).await? else {
                continue;
            };
            let change = SandboxChange {
                spec: Some(spec),
                ..SandboxChange::default()
            };
            let changed =
                self.catalog
                    .change_sandbox(sandbox.tenant, &sandbox.id, &change, clock::now());
            match changed.await {
                // `Removing`: the sandbox is being deleted, and its variables
                // with it, so they need not be sealed.
                Ok(_) | Err(elevo_catalog::Error::Removing) => sealed += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sealed)
    }

    /// Returns the spec of a sandbox with its variables sealed with the current
    /// key. Returns `None` if the spec needs no change, or if the key of the
    /// variables is lost.
    async fn sealed_again(&self, sandbox: &Sandbox) -> Result<Option<Value>> {
        let mut spec = sandbox.spec.clone();
        let Some(fields) = spec.as_object_mut() else {
            return Ok(None);
        };
        let belonging = Belonging::variables(sandbox.tenant);
        let plain = fields.remove(PLAIN);
        let variables = match (&plain, fields.get(SEALED).and_then(Value::as_str)) {
            (_, Some(sealed)) if self.vault.is_present(sealed) => return Ok(None),
            (_, Some(sealed)) => match self.vault.unseal(belonging, sealed) {
                Ok(json) => serde_json::from_slice(&json),
                Err(_) => return Ok(None),
            },
            (Some(plain), None) => serde_json::from_value::<Variables>(plain.clone()),
            (None, None) => return Ok(None),
        };
        let variables = variables.map_err(|error| Failure::internal(&error))?;
        if let Some(sealed) = self.seal_variables(sandbox.tenant, &variables).await? {
            fields.insert(SEALED.into(), sealed.into());
        }
        Ok(Some(spec))
    }

    async fn seal_webhooks(&self) -> Result<usize> {
        let mut sealed = 0;
        for webhook in self.catalog.webhooks_of_all_tenants().await? {
            let belonging = Belonging::webhook(webhook.tenant);
            let (kept, previous) = (&webhook.secret, &webhook.previous_secret);
            let secret = self.secret_sealed_again(belonging, kept).await?;
            let older = self.secret_sealed_again(belonging, previous).await?;
            if (&secret, &older) == (kept, previous) {
                continue;
            }
            self.catalog
                .seal_webhook_secrets(webhook.tenant, &webhook.id, &secret, &older)
                .await?;
            sealed += 1;
        }
        Ok(sealed)
    }

    /// Returns a stored secret, sealed with the current key. Returns it unchanged
    /// if its key is lost: the other secrets must still be sealed.
    async fn secret_sealed_again(&self, belonging: Belonging, kept: &str) -> Result<String> {
        if kept.is_empty() || self.vault.is_present(kept) {
            return Ok(kept.to_owned());
        }
        let secret = match is_sealed(kept) {
            true => match self.unseal_secret(belonging, kept) {
                Ok(secret) => secret,
                Err(_) => return Ok(kept.to_owned()),
            },
            false => kept.to_owned(),
        };
        self.seal_secret(belonging, &secret).await
    }
}
