use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp, WebhookId};

use crate::error::Result;
use crate::records::{Attempt, Delivery, DeliveryState};

/// The deliveries of events to webhooks.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps this one:
///
/// 20. *A webhook gets every event that it may see, from the time it was added*:
///     each such event gets one delivery, in order, and is kept until the delivery
///     is no longer pending.
///
/// `owner` is the tenant of the webhook; `None` for the webhooks of the server. A
/// webhook of another owner is unknown.
#[async_trait]
pub trait Deliveries {
    /// Adds deliveries for the next events of a webhook, after reading at most
    /// `limit` events. Returns by how much the position of the webhook advanced:
    /// 0 after the last event, and for an unknown webhook.
    async fn queue_deliveries(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        limit: u32,
        now: Timestamp,
    ) -> Result<u64>;

    /// Returns at most `limit` pending deliveries of a webhook, oldest event first.
    async fn pending_deliveries(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        limit: u32,
    ) -> Result<Vec<Delivery>>;

    /// Records the outcome of attempts. Ignores attempts of deliveries that no
    /// longer exist.
    async fn note_attempts(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        attempts: &[Attempt],
        now: Timestamp,
    ) -> Result<()>;

    /// Returns at most `limit` deliveries of a webhook, newest event first;
    /// only those in `state` and only those of events before `before`, if these
    /// are given.
    async fn deliveries(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        state: Option<DeliveryState>,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<Delivery>>;

    /// Makes a delivery pending again, as if it had never been tried; returns
    /// `false` if there is none.
    async fn replay(
        &self,
        owner: Option<TenantId>,
        webhook: &WebhookId,
        event: u64,
        now: Timestamp,
    ) -> Result<bool>;
}
