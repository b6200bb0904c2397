//! Connections to programs in sandboxes that wait for their next request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use elevo_core::SandboxId;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;

use crate::app::ports::port::Port;
use crate::platform::clock;

/// Maximum time that a connection waits for a request.
const IDLE: Duration = Duration::from_secs(30);

/// Interval at which old connections are closed.
const SWEEP: Duration = Duration::from_secs(10);

/// Maximum connections that wait, for each port of a sandbox.
const PER_PORT: usize = 8;

/// Maximum ports of a sandbox that connections wait for. A workspace agent has
/// a limit on its tunnels.
const PORTS: usize = 4;

type Name = (SandboxId, Port);

/// The waiting connections. One that is dropped is closed. Connections end with
/// the connection of the workspace agent, so none outlasts its sandbox.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<HashMap<Name, Vec<Waiting>>>);

#[derive(Debug)]
struct Waiting {
    connection: SendRequest<Body>,
    since: Instant,
}

impl Pool {
    /// Takes a connection that can send a request.
    pub(super) fn take(&self, name: &Name) -> Option<SendRequest<Body>> {
        let mut pool = self.0.lock();
        let waiting = pool.get_mut(name)?;
        while let Some(Waiting { connection, .. }) = waiting.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection until its program has sent the whole response, and then
    /// for the next request.
    pub(super) fn keep(self: &Arc<Self>, name: Name, mut connection: SendRequest<Body>) {
        let pool = self.clone();
        tokio::spawn(async move {
            // Fails if the connection was closed.
            if connection.ready().await.is_ok() {
                pool.put(name, connection);
            }
        });
    }

    fn put(self: &Arc<Self>, name: Name, connection: SendRequest<Body>) {
        let since = clock::instant();
        let mut pool = self.0.lock();
        let is_new = !pool.contains_key(&name);
        if is_new && pool.keys().filter(|known| known.0 == name.0).count() >= PORTS {
            return;
        }
        let waiting = pool.entry(name.clone()).or_default();
        if waiting.len() < PER_PORT {
            waiting.push(Waiting { connection, since });
        }
        drop(pool);
        if is_new {
            tokio::spawn(self.clone().sweep(name));
        }
    }

    /// Closes old connections of a port until there are none.
    async fn sweep(self: Arc<Self>, name: Name) {
        loop {
            tokio::time::sleep(SWEEP).await;
            let mut pool = self.0.lock();
            let Some(waiting) = pool.get_mut(&name) else {
                return;
            };
            waiting.retain(|one| one.since.elapsed() < IDLE && !one.connection.is_closed());
            if waiting.is_empty() {
                pool.remove(&name);
                return;
            }
        }
    }
}
