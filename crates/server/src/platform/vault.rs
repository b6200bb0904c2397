//! Encryption of the secrets in the catalog: variables of sandboxes, secrets of
//! webhooks, and the secret of links to ports.
//!
//! ```text
//! SECRETS_KEY_FILE, outside of DATA_DIR       catalog.db
//!   # comment                                   setting `secrets_key`: ID of the first key
//!   64 hexadecimal digits  (seals and opens)    values: sealed-1.ID.BASE64(nonce, ciphertext)
//!   64 hexadecimal digits  (opens)
//!   lost ID
//! ```
//!
//! A value is sealed with XChaCha20-Poly1305 and a random nonce, for one
//! purpose and one tenant; it cannot be opened for another purpose or tenant.
//! The file is created with the first secret, and is durable before that secret
//! is in the catalog. A server does not start if its file lacks the key that
//! the catalog names, unless the file marks the key as lost.
//!
//! Uses the settings of the catalog. Never logs a key or a value.

pub(crate) mod keys;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use elevo_catalog::Catalog;
use elevo_core::{ErrorCode, TenantId};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::failure::{Failure, Result};
use crate::platform::clock;

pub(crate) use crate::platform::vault::keys::KeyId;
pub(crate) use crate::platform::vault::keys::Keys;

/// The setting of the catalog that names the key of its secrets.
pub(crate) const SECRETS_KEY: &str = "secrets_key";

const FORM: &str = "sealed-1";
const NONCE: usize = 24;

/// The kind of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Variables of a sandbox, as JSON.
    Variables,
    /// The secret that deliveries of a webhook are signed with.
    Webhook,
    /// The secret that signs links to ports.
    PortLinks,
}

/// The purpose and the tenant of a secret. The webhook of the setting
/// `WEBHOOK_URL` and the secret of links have no tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belonging {
    pub(crate) purpose: Purpose,
    pub(crate) tenant: Option<TenantId>,
}

impl Belonging {
    pub(crate) fn variables(tenant: TenantId) -> Self {
        let (purpose, tenant) = (Purpose::Variables, Some(tenant));
        Self { purpose, tenant }
    }

    pub(crate) fn webhook(tenant: Option<TenantId>) -> Self {
        let purpose = Purpose::Webhook;
        Self { purpose, tenant }
    }

    pub(crate) fn port_links() -> Self {
        let (purpose, tenant) = (Purpose::PortLinks, None);
        Self { purpose, tenant }
    }

    /// Returns the data that is authenticated with the ciphertext.
    fn bytes(self) -> Vec<u8> {
        let purpose: &[u8] = match self.purpose {
            Purpose::Variables => b"variables of a sandbox\0",
            Purpose::Webhook => b"secret of a webhook\0",
            Purpose::PortLinks => b"secret of links to ports\0",
        };
        let tenant = self.tenant.map(|tenant| tenant.as_bytes().to_vec());
        [purpose, &tenant.unwrap_or_default()].concat()
    }
}

/// Seals and opens secrets with the keys of a file.
pub(crate) struct Vault {
    file: PathBuf,
    catalog: Arc<dyn Catalog>,
    keys: RwLock<Arc<Keys>>,
    /// Held while the key file is created.
    making: Mutex<()>,
}

impl Vault {
    pub(crate) fn new(file: PathBuf, catalog: Arc<dyn Catalog>) -> Self {
        Self {
            file,
            catalog,
            keys: RwLock::default(),
            making: Mutex::default(),
        }
    }

    /// Reads the key file, and checks that it has the key that the catalog
    /// names. A catalog without secrets needs no key file.
    pub(crate) async fn open(&self) -> anyhow::Result<()> {
        let keys = Keys::read(&self.file)?;
        if let Some(id) = self.catalog.setting(SECRETS_KEY).await? {
            anyhow::ensure!(keys.knows(&id), missing(&self.file, &id, keys.is_empty()));
        }
        self.set(keys);
        Ok(())
    }

    /// Seals a secret. Creates the key file with a first key if no key exists
    /// yet.
    pub(crate) async fn seal(&self, belonging: Belonging, secret: &[u8]) -> Result<String> {
        let keys = self.keys_to_seal().await?;
        let Some((id, key)) = keys.first() else {
            return Err(cannot_seal());
        };
        let nonce: [u8; NONCE] = clock::random();
        let aad = belonging.bytes();
        let payload = Payload {
            msg: secret,
            aad: &aad,
        };
        let sealed = XChaCha20Poly1305::new(key.into()).encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| cannot_seal())?;
        let bytes = [&nonce[..], &sealed].concat();
        Ok(format!("{FORM}.{id}.{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Opens a secret that was sealed for `belonging`.
    pub(crate) fn unseal(&self, belonging: Belonging, sealed: &str) -> Result<Vec<u8>> {
        let keys = self.keys();
        let opened = parts(sealed).and_then(|(id, nonce, ciphertext)| {
            let aad = belonging.bytes();
            let payload = Payload {
                msg: &ciphertext,
                aad: &aad,
            };
            let cipher = XChaCha20Poly1305::new(keys.get(&id)?.into());
            cipher.decrypt(&XNonce::from(nonce), payload).ok()
        });
        opened.ok_or_else(|| {
            let message = "a secret cannot be read: its key is not in the server's key file";
            Failure::new(ErrorCode::SecretUnreadable, message)
        })
    }

    /// Returns the id of the key that seals; `None` if there is no key yet.
    pub(crate) fn present_key(&self) -> Option<KeyId> {
        self.keys().first().map(|(id, _)| id.clone())
    }

    /// Returns whether a value is sealed with the current key.
    pub(crate) fn is_present(&self, value: &str) -> bool {
        let id = parts(value).map(|(id, ..)| id);
        id.is_some() && id == self.present_key()
    }

    /// Records the id of the current key in the catalog.
    pub(crate) async fn note_key(&self) -> Result<()> {
        if let Some(id) = self.present_key() {
            self.catalog.set_setting(SECRETS_KEY, id.as_str()).await?;
        }
        Ok(())
    }

    async fn keys_to_seal(&self) -> Result<Arc<Keys>> {
        if self.keys().is_empty() {
            let _making = self.making.lock().await;
            if self.keys().is_empty() {
                // Another server with this catalog has created one.
                let known = self.catalog.setting(SECRETS_KEY).await?;
                if let Some(id) = known.filter(|id| !self.keys().knows(id)) {
                    let error = missing(&self.file, &id, true);
                    tracing::error!(error, "cannot encrypt a secret");
                    return Err(cannot_seal());
                }
                let file = self.file.clone();
                let made = tokio::task::spawn_blocking(move || Keys::make(&file)).await;
                let made = made.unwrap_or_else(|panicked| Err(panicked.into()));
                let made = made.map_err(|error| {
                    let file = self.file.display();
                    tracing::error!(%file, %error, "cannot create the key file for secrets");
                    cannot_seal().caused_by(&error)
                })?;
                tracing::info!(
                    file = %self.file.display(),
                    "created the key that encrypts secrets; keep a copy apart from the backups"
                );
                self.set(made);
                self.note_key().await?;
            }
        }
        Ok(self.keys())
    }

    fn keys(&self) -> Arc<Keys> {
        let keys = self.keys.read();
        keys.clone()
    }

    fn set(&self, keys: Keys) {
        let mut present = self.keys.write();
        *present = Arc::new(keys);
    }
}

/// Returns whether a value of the catalog is sealed, with any key.
pub(crate) fn is_sealed(value: &str) -> bool {
    parts(value).is_some()
}

/// Returns the id of the key, the nonce and the ciphertext of a sealed value.
fn parts(sealed: &str) -> Option<(KeyId, [u8; NONCE], Vec<u8>)> {
    let (id, text) = sealed
        .strip_prefix(FORM)?
        .strip_prefix('.')?
        .split_once('.')?;
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (nonce, ciphertext) = bytes.split_first_chunk::<NONCE>()?;
    Some((id.parse().ok()?, *nonce, ciphertext.to_vec()))
}

fn cannot_seal() -> Failure {
    let message = "this server cannot store secrets: its key file cannot be created or used";
    Failure::new(ErrorCode::SecretUnreadable, message)
}

/// Returns whether a key file contains the key with this id, or records it as
/// lost.
pub fn has_secrets_key(file: &Path, id: &str) -> bool {
    Keys::read(file).is_ok_and(|keys| keys.knows(id))
}

/// Returns the message for a catalog whose key is missing, with the remedy.
pub(crate) fn missing(file: &Path, id: &str, is_gone: bool) -> String {
    let file = file.display();
    let (first, remedy) = match is_gone {
        true => (
            format!("the key file {file} does not exist or has no key"),
            "Restore the file from your copy or from another server with this catalog, or set \
             SECRETS_KEY_FILE to its path.",
        ),
        false => (
            format!("the key file {file} lacks the key {id}"),
            "Add the line with that key from your copy to the file.",
        ),
    };
    format!(
        "{first}: variables of sandboxes and secrets of webhooks in this data directory are \
         encrypted with the key {id}.\n{remedy}\nIf the key is lost for good, write the line \
         `lost {id}` to {file}: sandboxes and webhooks with such values must then be created again."
    )
}

#[cfg(test)]
mod tests;
