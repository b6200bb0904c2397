//! A proxy between a server under test and its PostgreSQL or S3. It counts
//! round trips and injects faults.
//!
//! ```text
//! code under test ── Wire::address() ── Wire ── upstream: PostgreSQL, S3
//!                          up ─────────────────►
//!                          ◄───────────────── down
//! ```
//!
//! No crate does this: proxies that inject faults know neither protocol, so
//! they cannot count round trips, nor cut a connection between a commit and its
//! acknowledgement.
//!
//! ```no_run
//! use elevo_testkit::wire::{Fault, Wire, expect_trips};
//!
//! # async fn commit() -> Result<(), ()> { Ok(()) }
//! # async fn test(server: std::net::SocketAddr) {
//! let wire = Wire::postgres(server);
//! // ... connect to wire.address() and warm the connections, then:
//! expect_trips(&wire, 1, commit()).await.unwrap();
//!
//! // The server commits, but the client does not hear of it.
//! wire.set(Fault::CutAtTrip { nth: 1 });
//! commit().await.unwrap_err();
//! # }
//! ```
//!
//! # Round trips
//!
//! - PostgreSQL: each `ReadyForQuery` is one. Those of start-up and
//!   authentication are counted separately. `COPY FROM STDIN` counts once,
//!   although the client also waits for permission to send.
//! - HTTP/1: each request is one, with or without `Expect: 100-continue`.
//!
//! The proxy passes encrypted connections on, but cannot count in them:
//! [`Trips::unreadable`] is their number.
//!
//! # Faults
//!
//! [`Wire::set`] sets one [`Fault`] for all connections from this moment,
//! [`Wire::plan`] sets [`Faults`] by connection, from a script or a seed, and
//! [`Wire::heal`] clears everything.
//!
//! The proxy has a thread, so tests may block theirs and may stop its clock.

mod clock;
mod connection;
mod conversation;
mod faults;
mod http;
mod postgres;
mod proxy;
mod state;
#[cfg(test)]
mod tests;
mod trips;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc;

use self::conversation::Protocol;
use self::proxy::{Command, Ports, call};
use self::state::State;

pub use self::faults::{Direction, Fault, Faults, Kind};
pub use self::trips::{Trips, expect_trips, expect_trips_of_both};

/// The server behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a socket, for example `/tmp/.s.PGSQL.5432`.
    Unix(PathBuf),
}

impl From<SocketAddr> for Upstream {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl From<PathBuf> for Upstream {
    fn from(path: PathBuf) -> Self {
        Self::Unix(path)
    }
}

impl From<&Path> for Upstream {
    fn from(path: &Path) -> Self {
        Self::Unix(path.to_owned())
    }
}

/// A proxy on loopback. Dropping it closes its port and its connections.
#[derive(Debug)]
pub struct Wire {
    address: SocketAddr,
    protocol: Protocol,
    state: Arc<State>,
    /// `None` only while the value is dropped.
    commands: Option<mpsc::UnboundedSender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Starts a proxy for a PostgreSQL server.
    pub fn postgres(upstream: impl Into<Upstream>) -> Self {
        Self::start(Protocol::Postgres, upstream.into())
    }

    /// Starts a proxy for an HTTP/1 server, for example of S3.
    pub fn http(upstream: impl Into<Upstream>) -> Self {
        Self::start(Protocol::Http, upstream.into())
    }

    fn start(protocol: Protocol, upstream: Upstream) -> Self {
        let ports = Ports::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let state = Arc::new(State::default());
        let (commands, received) = mpsc::unbounded_channel();
        let wire = Self {
            address: ports.address(),
            protocol,
            state: Arc::clone(&state),
            commands: Some(commands),
            thread: Some(thread::spawn(move || {
                proxy::run(ports, upstream, protocol, state, received);
            })),
        };
        wire.listen();
        wire
    }

    /// The address of the proxy, which keeps its port while nothing listens
    /// there.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counts since the start of the proxy.
    pub fn trips(&self) -> Trips {
        self.state.trips()
    }

    /// Sets a fault for all connections, until [`heal`](Self::heal).
    ///
    /// `Refuse`, `Hang` and `Delay` last. `Cut`, `CutAtTrip` and `Flip` happen
    /// once: their bytes and round trips count from now on, over all
    /// connections, so that a retry on another connection can succeed.
    pub fn set(&self, fault: Fault) {
        self.state.set(fault);
    }

    /// Adds a delay to each round trip: half of it in each direction.
    pub fn delay(&self, trip: Duration) {
        self.set(Fault::delay(trip));
    }

    /// Sets the faults of each connection that is accepted from now on, the
    /// first of which has the number 0.
    pub fn plan(&self, faults: Faults) {
        self.state.plan(faults);
    }

    /// Closes all connections. New ones are accepted.
    pub fn cut_all(&self) {
        self.call(Command::CutAll);
    }

    /// Stops listening, so that new connections are refused.
    pub fn stop_listening(&self) {
        self.call(|done| Command::Listen(false, done));
    }

    /// Refuses new connections and closes the existing ones.
    pub fn fence(&self) {
        self.stop_listening();
        self.cut_all();
    }

    /// Clears all faults and listens again. Connections that hang go on.
    pub fn heal(&self) {
        self.state.heal();
        self.listen();
    }

    fn listen(&self) {
        self.call(|done| Command::Listen(true, done));
    }

    fn call(&self, command: impl FnOnce(proxy::Done) -> Command) {
        if let Some(commands) = &self.commands {
            call(commands, command);
        }
    }

    /// The name of the protocol in messages.
    fn name(&self) -> &'static str {
        match self.protocol {
            Protocol::Postgres => "PostgreSQL",
            Protocol::Http => "HTTP",
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The thread ends when nothing can send it commands.
        self.commands = None;
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.transpose().expect("the proxy has panicked");
        }
    }
}
