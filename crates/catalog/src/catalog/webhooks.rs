use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp, WebhookId};

use crate::error::Result;
use crate::records::{Webhook, WebhookChange};

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

    /// Changes a webhook; returns `None` if there is none.
    async fn change_webhook(
        &self,
        owner: Option<TenantId>,
        id: &WebhookId,
        change: &WebhookChange,
    ) -> Result<Option<Webhook>>;

    /// Gives a webhook a new secret. The present secret becomes the previous one
    /// until `keep_until`; it is deleted at once if that is `None`. Returns `None`
    /// if the webhook does not exist.
    async fn rotate_webhook(
        &self,
        owner: Option<TenantId>,
        id: &WebhookId,
        secret: &str,
        keep_until: Option<Timestamp>,
    ) -> Result<Option<Webhook>>;

    /// Changes the stored form of both secrets of a webhook, which stay the
    /// same; returns `false` if the webhook does not exist.
    async fn seal_webhook_secrets(
        &self,
        owner: Option<TenantId>,
        id: &WebhookId,
        secret: &str,
        previous: &str,
    ) -> Result<bool>;

    /// Deletes the previous secrets of all webhooks whose time has passed.
    /// Returns the number of deleted secrets.
    async fn forget_webhook_secrets(&self, now: Timestamp) -> Result<u64>;

    /// Deletes a webhook with its deliveries; returns `false` if there is none.
    async fn remove_webhook(&self, owner: Option<TenantId>, id: &WebhookId) -> Result<bool>;
}
