use async_trait::async_trait;
use elevo_core::TenantId;

use crate::error::Result;
use crate::records::Webhook;

/// Webhooks: addresses that get events.
#[async_trait]
pub trait Webhooks {
    /// Adds a webhook, which gets the events from now on. `Exists` if any tenant
    /// has a webhook with that id, `NotFound` if its tenant does not exist,
    /// `LimitReached` if the tenant has [`MAX_WEBHOOKS`](crate::MAX_WEBHOOKS).
    async fn add_webhook(&self, webhook: &Webhook) -> Result<()>;

    /// Returns a webhook of any tenant, or of the server, by id.
    async fn webhook(&self, id: &str) -> Result<Option<Webhook>>;

    /// Returns the webhooks of a tenant, or all, oldest first: by time of
    /// creation, then by id.
    async fn webhooks(&self, tenant: Option<TenantId>) -> Result<Vec<Webhook>>;

    /// Changes the secret of a webhook; returns `false` if there is none.
    async fn set_webhook_secret(&self, id: &str, secret: &str) -> Result<bool>;

    /// Deletes a webhook with its deliveries; returns `false` if there is none.
    async fn remove_webhook(&self, id: &str) -> Result<bool>;
}
