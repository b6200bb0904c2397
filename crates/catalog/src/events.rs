//! The [`Events`] trait: events and webhooks, for the same databases as
//! [`Catalog`](crate::Catalog).

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp};

use crate::error::Result;
use crate::records::{Attempt, Delivery, DeliveryState, Event, EventQuery, NewEvent, Webhook};

/// Events and webhooks.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps these:
///
/// 18. *Every change has its event*: a change of a sandbox, a landing and its
///     changes of reviews record their events in their own transaction. A change
///     that is rolled back leaves no event.
/// 19. *Events are numbered in the order in which they become visible*: a reader
///     that has read up to an event has missed none with a lower number.
/// 20. *A webhook gets every event that it may see, from the time it was added*:
///     each event has a delivery, in order, and is kept while the delivery is
///     pending.
#[async_trait]
pub trait Events {
    /// Records an event that no other call records; returns its number.
    async fn add_event(&self, event: &NewEvent) -> Result<u64>;

    /// Returns events, oldest first.
    async fn events(&self, query: &EventQuery) -> Result<Vec<Event>>;

    /// Returns the number of the newest event ever recorded, also if it was
    /// deleted; 0 if there was none.
    async fn last_event(&self) -> Result<u64>;

    /// Deletes some events from before this time, except those that a webhook of
    /// the same tenant, or of the server, still has to deliver. Returns how many
    /// were deleted: 0 if no such event is left.
    async fn forget_events(&self, before: Timestamp) -> Result<u64>;

    /// Adds a webhook, which gets the events from now on. `Exists`, or `NotFound`
    /// if its tenant does not exist; `LimitReached` if the tenant has
    /// [`MAX_WEBHOOKS`](crate::MAX_WEBHOOKS).
    async fn add_webhook(&self, webhook: &Webhook) -> Result<()>;

    /// Returns a webhook by id.
    async fn webhook(&self, id: &str) -> Result<Option<Webhook>>;

    /// Returns the webhooks of a tenant, or all; oldest first.
    async fn webhooks(&self, tenant: Option<TenantId>) -> Result<Vec<Webhook>>;

    /// Changes the secret of a webhook; returns `false` if it does
    /// not exist.
    async fn set_webhook_secret(&self, id: &str, secret: &str) -> Result<bool>;

    /// Deletes a webhook with its deliveries; returns `false` if there is none.
    async fn remove_webhook(&self, id: &str) -> Result<bool>;

    /// Adds deliveries for the next events of a webhook, after reading at most
    /// `limit` events. Returns by how much the position of the webhook advanced:
    /// 0 after the last event.
    async fn queue_deliveries(&self, webhook: &str, limit: u32, now: Timestamp) -> Result<u64>;

    /// Returns pending deliveries, oldest event first.
    async fn pending_deliveries(&self, webhook: &str, limit: u32) -> Result<Vec<Delivery>>;

    /// Records the outcome of attempts. Ignores attempts of deliveries that no
    /// longer exist.
    async fn note_attempts(
        &self,
        webhook: &str,
        attempts: &[Attempt],
        now: Timestamp,
    ) -> Result<()>;

    /// Returns deliveries of a webhook, newest event first; only those before an
    /// event or in a state, if given.
    async fn deliveries(
        &self,
        webhook: &str,
        state: Option<DeliveryState>,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<Delivery>>;

    /// Makes a delivery pending again; returns `false` if it does
    /// not exist.
    async fn replay(&self, webhook: &str, event: u64, now: Timestamp) -> Result<bool>;
}
