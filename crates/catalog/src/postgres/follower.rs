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

use sqlx::PgConnection;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::events;
use super::hosts::{self, Hosts, Period, Writable};
use super::options::PostgresOptions;
use super::pool::Pool;
use crate::error::{Error, Result};

/// The channel that `number_events_1` notifies. The payload is the number of the
/// newest event.
const CHANNEL: &str = "events";
/// Maximum time for one statement of the background tasks. A host that needs
/// longer counts as lost.
const ANSWER: Duration = Duration::from_secs(3);
/// Interval between two numberings while a reader of this process waits, and
/// without readers: other processes may record events and end before they
/// number them.
const POLL: Duration = Duration::from_millis(100);
const IDLE_POLL: Duration = Duration::from_secs(1);
/// Minimum pause between two numberings, so that many changes share one.
const PAUSE: Duration = Duration::from_millis(5);
/// Pause before another attempt to find a host, to listen, or to number after an
/// error of the statement.
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

/// The hosts of a catalog.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) hosts: Hosts,
    /// The hosts without a pooler, if the pool connects through one.
    pub(super) direct: Option<Hosts>,
}

/// The hosts that are used, with a connection to each.
pub(super) struct Chosen {
    pooled: Writable,
    /// `None` if the other one is direct.
    direct: Option<Writable>,
}

/// The cause for which a host is chosen again.
enum Loss {
    /// The host did not answer in time. It may only be slow.
    Slow,
    Gone(Error),
}

impl Places {
    /// Finds the host that can be written.
    pub(super) async fn choose(&self) -> Result<Chosen> {
        let pooled = self.hosts.writable().await?;
        let direct = match &self.direct {
            Some(direct) => Some(direct.writable().await?),
            None => None,
        };
        Ok(Chosen { pooled, direct })
    }

    pub(super) fn direct(&self) -> &Hosts {
        self.direct.as_ref().unwrap_or(&self.hosts)
    }
}

impl Chosen {
    /// The host of the pool.
    pub(super) fn host(&self) -> &PgConnectOptions {
        &self.pooled.host
    }

    /// A connection that does not go through a pooler.
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.direct_mut().connection
    }

    fn direct(&self) -> &Writable {
        self.direct.as_ref().unwrap_or(&self.pooled)
    }

    fn direct_mut(&mut self) -> &mut Writable {
        self.direct.as_mut().unwrap_or(&mut self.pooled)
    }

    /// Fails unless the hosts can still be written.
    async fn check(&mut self) -> std::result::Result<(), Loss> {
        let each = [Some(&mut self.pooled), self.direct.as_mut()];
        for one in each.into_iter().flatten() {
            answer(hosts::check_writable(&mut one.connection)).await?;
        }
        Ok(())
    }

    /// The host of the pool, and its period. While these stay the same, a call on
    /// an earlier connection may still get its answer.
    fn identity(&self) -> (String, Period) {
        (hosts::name(self.host()), self.pooled.period)
    }
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
            listened: watch::Sender::new(chosen.direct().host.clone()),
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
            let Err(loss) = self.number_until_lost(&mut chosen).await;
            let error = match &loss {
                Loss::Slow => &Error::Busy,
                Loss::Gone(error) => error,
            };
            tracing::warn!(%error, "the database of the catalog does not answer");
            chosen = self.choose_again(chosen).await;
            tracing::info!("the database of the catalog answers again");
        }
    }

    /// Numbers events until the host is lost.
    async fn number_until_lost(
        &self,
        chosen: &mut Chosen,
    ) -> std::result::Result<Infallible, Loss> {
        let mut checked = Instant::now();
        loop {
            match answer(events::number(chosen.connection())).await {
                Ok(newest) => self.note_newest(newest),
                Err(Loss::Slow) => return Err(Loss::Slow),
                Err(Loss::Gone(error)) => {
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

    /// Finds the host that can be written, and has the pool use new connections
    /// to it. The calls on the earlier ones end, unless the host is the same and
    /// was not restarted: it was only slow, or this connection alone was lost.
    async fn choose_again(&self, earlier: Chosen) -> Chosen {
        let mut earlier = Some(earlier.identity());
        let lost = Instant::now();
        loop {
            if let Ok(chosen) = self.places.choose().await {
                let host = chosen.host().clone();
                match earlier.as_ref() == Some(&chosen.identity()) {
                    true => self.pool.use_new_connections(host),
                    false => self.pool.use_host(host),
                }
                self.listened.send_replace(chosen.direct().host.clone());
                return chosen;
            }
            if lost.elapsed() >= self.wait {
                earlier = None;
                self.pool.forget_host();
            }
            sleep(RETRY).await;
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

/// Waits for a statement at most [`ANSWER`].
async fn answer<T>(statement: impl Future<Output = Result<T>>) -> std::result::Result<T, Loss> {
    match timeout(ANSWER, statement).await {
        Ok(answer) => answer.map_err(Loss::Gone),
        Err(_) => Err(Loss::Slow),
    }
}
