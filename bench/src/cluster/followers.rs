//! Followers of events, as every server has them: they wait for a new number, then read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use elevo_catalog::{Error, Event, EventKind, EventQuery, PostgresCatalog};
use tokio::sync::watch;
use tokio::time::sleep;

use super::fixture;

/// Longest time without a look: the delay of events if notifications do not arrive.
const LOOK: Duration = Duration::from_secs(1);
/// Time for the last events, when their number is known.
const LAST: Duration = Duration::from_secs(30);
const PAGE: u32 = 1000;
const RETRY: Duration = Duration::from_millis(10);

/// A position in the events of the tenant.
pub(super) struct Follower {
    catalog: Arc<PostgresCatalog>,
    after: u64,
}

impl Follower {
    pub(super) const fn new(catalog: Arc<PostgresCatalog>) -> Self {
        Self { catalog, after: 0 }
    }

    /// Waits for events and returns them; none if there was none for a while.
    pub(super) async fn next(&mut self) -> Result<Vec<Event>> {
        self.catalog.wait_for_event(self.after, LOOK).await?;
        let mut events = Vec::new();
        loop {
            let query = EventQuery {
                tenant: Some(fixture::TENANT),
                after: self.after,
                limit: PAGE,
                ..EventQuery::default()
            };
            let page = match self.catalog.events(&query).await {
                Ok(page) => page,
                Err(Error::Busy | Error::Failed(_)) => {
                    sleep(RETRY).await;
                    return Ok(events);
                }
                Err(error) => return Err(error.into()),
            };
            let is_last = page.len() < PAGE as usize;
            self.after = page.last().map_or(self.after, |event| event.id);
            events.extend(page);
            if is_last {
                return Ok(events);
            }
        }
    }
}

/// Follows the landings until all of them were seen; their number becomes known later. Returns the
/// number of each event and of its landing.
pub(super) async fn follow_landings(
    catalog: Arc<PostgresCatalog>,
    total: watch::Receiver<Option<u64>>,
) -> Result<Vec<(u64, u64)>> {
    let mut follower = Follower::new(catalog);
    let mut seen = Vec::new();
    let mut late: Option<Instant> = None;
    loop {
        if let Some(total) = *total.borrow() {
            let since = late.get_or_insert_with(Instant::now);
            if seen.len() as u64 >= total || since.elapsed() >= LAST {
                return Ok(seen);
            }
        }
        for event in follower.next().await? {
            if event.event.kind == EventKind::ProjectLanded {
                let step = event.event.data["step"].as_u64();
                seen.push((event.id, step.context("a landing has a number")?));
            }
        }
    }
}
