use async_trait::async_trait;
use elevo_core::{TenantId, WebhookId};

use crate::error::Result;
use crate::records::Webhook;

/// Webhooks: addresses that get events.
///
/// `owner` is the tenant of a webhook; `None` for the webhooks of the server. A
/// webhook of another owner is unknown.
#[async_trait]
pub trait Webhooks {
    /// Adds a webhook, which gets the events from now on. `Exists` if any tenant
    /// has a webhook with that id, `NotFound` if its tenant does not exist,
    /// `LimitReached` if the tenant has [`MAX_WEBHOOKS`](crate::MAX_WEBHOOKS).
    async fn add_webhook(&self, webhook: &Webhook) -> Result<()>;

    /// Returns an owner's webhook by id.
    async fn webhook(&self, owner: Option<TenantId>, id: &WebhookId) -> Result<Option<Webhook>>;

    /// Returns the webhooks of an owner, oldest first: by time of creation, then
    /// by id.
    async fn webhooks(&self, owner: Option<TenantId>) -> Result<Vec<Webhook>>;

    /// Returns the webhooks of all tenants and of the server, oldest first: by
    /// time of creation, then by id.
    async fn webhooks_of_all_tenants(&self) -> Result<Vec<Webhook>>;

    /// Changes the secret of a webhook; returns `false` if there is none.
    async fn set_webhook_secret(
        &self,
        owner: Option<TenantId>,
        id: &WebhookId,
        secret: &str,
    ) -> Result<bool>;

    /// Deletes a webhook with its deliveries; returns `false` if there is none.
    async fn remove_webhook(&self, owner: Option<TenantId>, id: &WebhookId) -> Result<bool>;
}
