use std::time::Duration;

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp};

use crate::error::Result;
use crate::records::{Event, EventQuery, NewEvent};

/// Events.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps these:
///
/// 18. *Every change has its event*: adding, changing and deleting a sandbox,
///     changing a workspace, landing, and opening and ending a review record
///     their events in the same change. A change that is rolled back leaves no
///     event.
/// 19. *Events are numbered in the order in which they become visible*: a reader
///     that has read up to an event has missed none with a lower number. A number
///     is never used again. An event can become visible some time after the call
///     that recorded it has returned, because another process may give it its
///     number. It is not lost then: a reader that waits sees it. The events of one
///     call become visible in the order in which the call recorded them, and after
///     those of every call that had returned before it began.
#[async_trait]
pub trait Events {
    /// Records an event that no other call records.
    async fn add_event(&self, event: &NewEvent) -> Result<()>;

    /// Returns events in the order of their numbers.
    async fn events(&self, query: &EventQuery) -> Result<Vec<Event>>;

    /// Returns the number of the newest event that has ever been visible, also if
    /// it was deleted; 0 if there was none.
    async fn last_event(&self) -> Result<u64>;

    /// Waits until an event with a greater number than `after` is visible, or until
    /// `at_most` has passed. Returns the number of the newest event, or of one a
    /// moment ago.
    async fn wait_for_event(&self, after: u64, at_most: Duration) -> Result<u64>;

    /// Returns the number of the newest deleted event of a tenant; 0 if none was
    /// deleted. The catalog has all events of the tenant with a greater number.
    async fn forgotten_events(&self, tenant: TenantId) -> Result<u64>;

    /// Deletes some events from before this time, with their deliveries, except
    /// events that a webhook of the same tenant, or of the server, has not queued
    /// or not delivered yet. Returns how many events were deleted: 0 if no such
    /// event is left.
    async fn forget_events(&self, before: Timestamp) -> Result<u64>;
}
