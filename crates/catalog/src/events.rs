//! What happened, and who is told, behind one trait, for the same databases as
//! [`Catalog`](crate::Catalog).

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp};

use crate::error::Result;
use crate::records::{Attempt, Delivery, DeliveryState, Event, EventQuery, NewEvent, Webhook};

/// Events and webhooks.
///
/// Besides what every [`Catalog`](crate::Catalog) promises:
///
/// 18. *What happened is told*: a change of a sandbox, a landing and what it
///     does to reviews leave their events, in the transaction that makes them
///     so; what is taken back leaves none.
/// 19. *Events are numbered in the order in which they can be seen*: who has
///     read up to one misses none of a lower number.
/// 20. *A webhook gets every event that is its own, once it was added*: each has
///     a delivery, in order, and stays while that is pending.
#[async_trait]
pub trait Events {
    /// Writes down what no other call does; returns its number.
    async fn add_event(&self, event: &NewEvent) -> Result<u64>;

    /// Events, oldest first.
    async fn events(&self, query: &EventQuery) -> Result<Vec<Event>>;

    /// The number of the newest event there ever was; 0 if there was none.
    async fn last_event(&self) -> Result<u64>;

    /// Forgets some events from before this time, but none that a webhook of the
    /// same tenant, or of the server, has still to deliver. Returns how many were
    /// forgotten: 0 if none is left.
    async fn forget_events(&self, before: Timestamp) -> Result<u64>;

    /// Adds a webhook, which is told from now on. `Exists`, or `NotFound` if
    /// its tenant is not there; `LimitReached` beyond what a tenant may have.
    async fn add_webhook(&self, webhook: &Webhook) -> Result<()>;

    /// A webhook by its id.
    async fn webhook(&self, id: &str) -> Result<Option<Webhook>>;

    /// The webhooks of a tenant, or all; oldest first.
    async fn webhooks(&self, tenant: Option<TenantId>) -> Result<Vec<Webhook>>;

    /// Gives a webhook another secret; false if it is not there.
    async fn set_webhook_secret(&self, id: &str, secret: &str) -> Result<bool>;

    /// Removes a webhook with its deliveries; false if it is not there.
    async fn remove_webhook(&self, id: &str) -> Result<bool>;

    /// Makes deliveries of the next events of a webhook: looks at no more than
    /// `limit`; returns at how many it has looked.
    async fn queue_deliveries(&self, webhook: &str, limit: u32, now: Timestamp) -> Result<u64>;

    /// Deliveries that are pending, oldest event first.
    async fn pending_deliveries(&self, webhook: &str, limit: u32) -> Result<Vec<Delivery>>;

    /// Notes what became of attempts. Those of deliveries that are gone are
    /// ignored.
    async fn note_attempts(
        &self,
        webhook: &str,
        attempts: &[Attempt],
        now: Timestamp,
    ) -> Result<()>;

    /// Deliveries of a webhook, newest event first: before an event, if one is
    /// given, and in a state.
    async fn deliveries(
        &self,
        webhook: &str,
        state: Option<DeliveryState>,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<Delivery>>;

    /// Has a delivery made again; false if it is not there.
    async fn replay(&self, webhook: &str, event: u64, now: Timestamp) -> Result<bool>;
}
