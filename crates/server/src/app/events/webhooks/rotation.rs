//! Rotation of the secrets of webhooks. For a time after a rotation, two secrets
//! sign each delivery, so that a receiver can change its secret without a loss.

use std::time::Duration;

use elevo_api as api;
use elevo_catalog::Webhook;
use elevo_core::WebhookId;

use crate::app::access::principal::Principal;
use crate::app::events::webhooks::{Webhooks, check_secret, out};
use crate::app::missing::no_webhook;
use crate::app::requests::once::Once;
use crate::failure::{Failure, Result};
use crate::platform::vault::Belonging;
use crate::platform::{clock, signing};

/// Default time for which the previous secret signs deliveries, in seconds.
const KEEP: u32 = 24 * 3600;
/// Maximum time for which the previous secret signs deliveries, in seconds.
const MAX_KEEP: u32 = 7 * 24 * 3600;

impl Webhooks {
    /// Gives a webhook a new secret, and keeps the present one for a time.
    pub(crate) async fn rotate(
        &self,
        who: &Principal,
        id: &WebhookId,
        wish: api::RotateWebhook,
        once: &Once,
    ) -> Result<api::RotatedWebhook> {
        let webhook = self.own(who, id).await?;
        let keep = wish.keep_seconds.unwrap_or(KEEP);
        if keep > MAX_KEEP {
            let message = format!("`keepSeconds` must be 0 to {MAX_KEEP}");
            return Err(Failure::invalid(message));
        }
        if let Some(secret) = &wish.secret {
            check_secret(secret)?;
        }
        let belonging = Belonging::webhook(webhook.tenant);
        // A retry uses the secret of the first attempt: another rotation would
        // replace the secret that the receiver has.
        let sealed = match once.noted::<String>() {
            Some(sealed) => sealed,
            None => {
                let secret = wish.secret.clone();
                let secret = secret.unwrap_or_else(|| signing::new_secret(clock::random()));
                let sealed = self.secrets.seal_secret(belonging, &secret).await?;
                once.note(&sealed).await?;
                sealed
            }
        };
        let rotated = match webhook.secret == sealed {
            true => webhook,
            false => {
                let kept = Duration::from_secs(keep.into());
                let until = (keep > 0).then(|| clock::after(clock::now(), kept));
                let rotated =
                    self.catalog
                        .rotate_webhook(webhook.tenant, &webhook.id, &sealed, until);
                rotated.await?.ok_or_else(|| no_webhook(id))?
            }
        };
        let secret = match wish.secret {
            Some(_) => None,
            None => Some(self.secrets.unseal_secret(belonging, &sealed)?),
        };
        Ok(api::RotatedWebhook {
            webhook: out(rotated),
            secret,
        })
    }

    /// Returns the secrets that sign the deliveries of a webhook now, newest
    /// first.
    pub(crate) async fn secrets_of(&self, webhook: &Webhook) -> Result<Vec<String>> {
        let mut secrets: Vec<_> = self.secrets.secret_of(webhook)?.into_iter().collect();
        if let Some(until) = webhook.previous_until
            && until > self.time.settled().await?
        {
            let belonging = Belonging::webhook(webhook.tenant);
            let previous = &webhook.previous_secret;
            secrets.push(self.secrets.unseal_secret(belonging, previous)?);
        }
        Ok(secrets)
    }

    /// Deletes previous secrets whose time has passed. `all` are the webhooks of
    /// the catalog.
    pub(crate) async fn delete_old_secrets(&self, all: &[Webhook]) -> Result<()> {
        let Some(first) = all.iter().filter_map(|it| it.previous_until).min() else {
            return Ok(());
        };
        let now = self.time.settled().await?;
        if first <= now {
            self.catalog.forget_webhook_secrets(now).await?;
        }
        Ok(())
    }
}
