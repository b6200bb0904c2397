//! Follows the database in the background: keeps the pool on the host that can
//! be written, gives numbers to new events, and wakes the readers that wait for
//! them.
//!
//! Two tasks, each with a separate connection, which must not go through a
//! pooler:
//!
//! ```text
//! numbering   after each change of this process, and at an interval: numbers
//!             events; every second: checks that the host can be written, also
//!             through the pooler, and chooses a host again if it cannot
//! listening   LISTEN: numbers that any process has given wake the readers
//! ```
//!
//! If listening fails, the interval of the other task is the delay of events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use elevo_postgres::{Chosen, Lost, Places, Pool, answer};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::events;
use super::options::PostgresOptions;

/// The channel that `number_events_1` notifies. The payload is the number of the
/// newest event.
const CHANNEL: &str = "events";
/// Maximum time to connect for notifications.
const ANSWER: Duration = Duration::from_secs(3);
/// Interval between two numberings while a reader of this process waits, and
/// without readers: other processes may record events and end before they
/// number them.
const POLL: Duration = Duration::from_millis(100);
const IDLE_POLL: Duration = Duration::from_secs(1);
/// Minimum pause between two numberings, so that many changes share one.
const PAUSE: Duration = Duration::from_millis(5);
/// Pause before another attempt to listen, or to number after an error of the
/// statement.
const RETRY: Duration = Duration::from_millis(200);

/// The background tasks of one catalog. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Follower {
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug)]
struct Shared {
    places: Places,
    pool: Pool,
    /// Time after which the calls on a lost host end if no other is found.
    wait: Duration,
    check: Duration,
    /// The host for notifications.
    listened: watch::Sender<PgConnectOptions>,
    /// The number of the newest event.
    newest: watch::Sender<u64>,
    /// Notified after each change of this process.
    changes: Notify,
}

impl Follower {
    pub(super) fn start(
        places: Places,
        chosen: Chosen,
        pool: Pool,
        options: &PostgresOptions,
    ) -> Self {
        let shared = Arc::new(Shared {
            places,
            pool,
            wait: options.wait,
            check: options.check,
            listened: watch::Sender::new(chosen.direct_host().clone()),
            newest: watch::Sender::new(0),
            changes: Notify::new(),
        });
        let (numbering, listening) = (Arc::clone(&shared), Arc::clone(&shared));
        let tasks = [
            tokio::spawn(async move { numbering.number_always(chosen).await }),
            tokio::spawn(async move { listening.listen_always().await }),
        ];
        Self { shared, tasks }
    }

    /// Has events numbered soon.
    pub(super) fn note_change(&self) {
        self.shared.changes.notify_one();
    }

    /// Waits until an event with a greater number than `after` is known, or
    /// until `at_most` has passed; returns the number of the newest known event.
    pub(super) async fn wait(&self, after: u64, at_most: Duration) -> u64 {
        let mut newest = self.shared.newest.subscribe();
        let found = timeout(at_most, newest.wait_for(|newest| *newest > after)).await;
        match found {
            Ok(Ok(newest)) => *newest,
            _ => *self.shared.newest.borrow(),
        }
    }

    pub(super) fn stop(&self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    async fn number_always(&self, mut chosen: Chosen) {
        loop {
            let Err(error) = self.number_until_lost(&mut chosen).await;
            tracing::warn!(%error, "the database of the catalog does not answer");
            chosen = self
                .places
                .choose_again(chosen, &self.pool, self.wait)
                .await;
            self.listened.send_replace(chosen.direct_host().clone());
            tracing::info!("the database of the catalog answers again");
        }
    }

    /// Numbers events until the host is lost.
    async fn number_until_lost(&self, chosen: &mut Chosen) -> Result<Infallible, Lost> {
        let mut checked = Instant::now();
        loop {
            match answer(events::give_numbers(chosen.connection())).await {
                Ok(newest) => self.note_newest(newest),
                Err(Lost::Slow) => return Err(Lost::Slow),
                Err(error) => {
                    // An error of the statement alone, for example because the
                    // disk is full, is no reason to end other calls.
                    chosen.check().await?;
                    tracing::warn!(%error, "events cannot be numbered");
                    sleep(RETRY).await;
                }
            }
            if checked.elapsed() >= self.check {
                chosen.check().await?;
                checked = Instant::now();
            }
            sleep(PAUSE).await;
            let poll = match self.newest.receiver_count() {
                0 => IDLE_POLL,
                _ => POLL,
            };
            let _ = timeout(poll, self.changes.notified()).await;
        }
    }

    fn note_newest(&self, number: u64) {
        self.newest.send_if_modified(|newest| {
            let is_newer = number > *newest;
            *newest = number.max(*newest);
            is_newer
        });
    }

    async fn listen_always(&self) {
        let mut host = self.listened.subscribe();
        loop {
            let at = host.borrow_and_update().clone();
            tokio::select! {
                // The interval of the other task covers the time until the next
                // attempt, and that task reports a lost host.
                _ = self.listen(at) => {}
                _ = host.changed() => continue,
            }
            sleep(RETRY).await;
        }
    }

    /// Listens until the connection is lost.
    async fn listen(&self, host: PgConnectOptions) -> sqlx::Result<()> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ANSWER)
            .connect_lazy_with(host);
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        // An event before this moment is found by the other task.
        self.changes.notify_one();
        while let Some(notification) = listener.try_recv().await? {
            if let Ok(number) = notification.payload().parse() {
                self.note_newest(number);
            }
        }
        Ok(())
    }
}
