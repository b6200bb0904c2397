//! Follows the database in the background: keeps the pool on the host that can
//! be written, gives numbers to new events, and wakes the readers that wait for
//! them.
//!
//! Two tasks, each with a separate connection, which must not go through a
//! pooler:
//!
//! ```text
//! numbering   after each change of this process, and at an interval: numbers
//!             events; every second: checks that the host can be written, and
//!             chooses a host again if it cannot
//! listening   LISTEN: numbers that any process has given wake the readers
//! ```
//!
//! If listening fails, the interval of the other task is the delay of events.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{PgConnection, PgPool};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::events;
use super::hosts::{self, Hosts, Writable};
use crate::error::{Error, Result};

/// The channel that `number_events_1` notifies. The payload is the number of the
/// newest event.
const CHANNEL: &str = "events";
/// Maximum time for one statement of the background tasks. A host that needs
/// longer counts as lost.
const ANSWER: Duration = Duration::from_secs(3);
/// Interval between two checks of the host.
const CHECK: Duration = Duration::from_secs(1);
/// Interval between two numberings while a reader of this process waits, and
/// without readers: other processes may record events and end before they
/// number them.
const POLL: Duration = Duration::from_millis(100);
const IDLE_POLL: Duration = Duration::from_secs(1);
/// Minimum pause between two numberings, so that many changes share one.
const PAUSE: Duration = Duration::from_millis(5);
/// Pause before another attempt to find a host, or to listen.
const RETRY: Duration = Duration::from_millis(200);

/// The background tasks of one catalog. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Follower {
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

/// Connections that were made before this moment are not used again: the
/// database has since moved to another host, or was restarted.
pub(super) type ValidSince = Arc<Mutex<Instant>>;

#[derive(Debug)]
struct Shared {
    hosts: Hosts,
    /// The hosts without a pooler, if the pool connects through one.
    direct: Option<Hosts>,
    pool: PgPool,
    valid_since: ValidSince,
    /// The host for notifications.
    listened: watch::Sender<PgConnectOptions>,
    /// The number of the newest event.
    newest: watch::Sender<u64>,
    /// Notified after each change of this process.
    changes: Notify,
}

/// The database when its catalog is opened.
pub(super) struct Opened {
    pub(super) hosts: Hosts,
    pub(super) direct: Option<Hosts>,
    pub(super) pool: PgPool,
    pub(super) valid_since: ValidSince,
    /// Not through a pooler.
    pub(super) connection: Writable,
}

impl Follower {
    pub(super) fn start(opened: Opened) -> Self {
        let shared = Arc::new(Shared {
            hosts: opened.hosts,
            direct: opened.direct,
            pool: opened.pool,
            valid_since: opened.valid_since,
            listened: watch::Sender::new(opened.connection.host),
            newest: watch::Sender::new(0),
            changes: Notify::new(),
        });
        let (numbering, listening) = (Arc::clone(&shared), Arc::clone(&shared));
        let connection = opened.connection.connection;
        let tasks = [
            tokio::spawn(async move { numbering.number_always(connection).await }),
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
    async fn number_always(&self, mut connection: PgConnection) {
        loop {
            if let Err(error) = self.number_until_lost(&mut connection).await {
                tracing::warn!(%error, "the database of the catalog does not answer");
            }
            drop(connection);
            connection = loop {
                match self.choose().await {
                    Ok(connection) => break connection,
                    Err(_) => sleep(RETRY).await,
                }
            };
            tracing::info!("the database of the catalog answers again");
        }
    }

    /// Numbers events until the host is lost; returns the cause.
    async fn number_until_lost(&self, connection: &mut PgConnection) -> Result<()> {
        let mut checked = Instant::now();
        loop {
            let newest = answer(events::number(&mut *connection)).await?;
            self.note_newest(newest);
            if checked.elapsed() >= CHECK {
                answer(hosts::check_writable(connection)).await?;
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

    /// Finds the host that can be written, and has the pool connect to it.
    /// Returns a connection that does not go through a pooler.
    async fn choose(&self) -> Result<PgConnection> {
        let Writable { host, connection } = self.hosts.writable().await?;
        let direct = match &self.direct {
            None => Writable {
                host: host.clone(),
                connection,
            },
            Some(direct) => {
                drop(connection);
                direct.writable().await?
            }
        };
        self.pool.set_connect_options(host);
        *self.valid_since.lock() = Instant::now();
        self.listened.send_replace(direct.host);
        Ok(direct.connection)
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
async fn answer<T>(statement: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(ANSWER, statement).await.map_err(|_| Error::Busy)?
}
