//! The connected agents.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use elevo_agent_proto::{CONNECTION_WINDOW, FRAME, MAX_STREAMS, STREAM_WINDOW};
use parking_lot::{Mutex, MutexGuard};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, broadcast, oneshot};
use tonic::transport::Server;

use crate::dispatch::Calls;
use crate::guard::{Accept, incoming};
use crate::link::AgentLink;
use crate::service::Service;
use crate::sparing::Sparing;
use crate::types::AgentCall;

/// Number of events after which a slow subscriber loses the oldest events.
const EVENTS: usize = 1024;

/// Maximum time for connections to end when a server stops.
const STOP_SLACK: Duration = Duration::from_secs(1);

/// Maximum bytes of headers of a request.
const HEADERS: u32 = 8 * 1024;

/// Checks the tokens of agents.
#[async_trait]
pub trait Authenticate: Send + Sync {
    /// Returns whether the token belongs to the sandbox. Must compare in
    /// constant time.
    async fn is_right(&self, sandbox: &str, token: &str) -> bool;
}

/// Settings of [`AgentLinks`].
#[derive(Debug, Clone)]
pub struct Settings {
    /// Interval of heartbeats. The server disconnects an agent that misses
    /// three heartbeats.
    pub heartbeat: Duration,
    /// Maximum terminals in one sandbox.
    pub terminals: u32,
    /// Bytes of output that an agent keeps for each process; 0 means the
    /// agent's default.
    pub output_buffer: u32,
    /// Maximum unacknowledged bytes that are sent to one reader.
    pub window: u32,
    /// Receives every call that an agent has completed, inside the tracing span
    /// of the call.
    pub observe: Option<fn(&AgentCall)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(30),
            terminals: 5,
            output_buffer: 0,
            window: 1024 * 1024,
            observe: None,
        }
    }
}

/// A change of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// An agent has connected. The new connection may replace an earlier one.
    Connected {
        /// The sandbox of the agent.
        sandbox: String,
    },
    /// An agent has disconnected.
    Disconnected {
        /// The sandbox of the agent.
        sandbox: String,
    },
}

/// The connected agents. Clones share their state.
#[derive(Clone)]
pub struct AgentLinks(Arc<Shared>);

struct Shared {
    authenticate: Arc<dyn Authenticate>,
    settings: Settings,
    links: Mutex<HashMap<String, AgentLink>>,
    came: Notify,
    events: broadcast::Sender<LinkEvent>,
    servers: AtomicU64,
}

impl AgentLinks {
    /// Creates an instance without agents.
    #[must_use]
    pub fn new(authenticate: Arc<dyn Authenticate>, settings: Settings) -> Self {
        Self(Arc::new(Shared {
            authenticate,
            settings,
            links: Mutex::default(),
            came: Notify::new(),
            events: broadcast::Sender::new(EVENTS),
            servers: AtomicU64::new(0),
        }))
    }

    /// Serves agents on a Unix socket until `stop`. A stale socket is replaced.
    /// Every user of the machine may connect to the socket: the permissions of
    /// its directory limit access to it, and connections without a valid token
    /// are closed.
    ///
    /// # Errors
    ///
    /// If the socket cannot be created, or another process listens on it.
    pub async fn serve_unix(
        &self,
        path: &Path,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        remove_stale(path).await?;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
        self.serve(listener, stop).await
    }

    /// Serves agents on TCP until `stop`.
    ///
    /// # Errors
    ///
    /// If serving fails.
    pub async fn serve_tcp(
        &self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        self.serve(listener, stop).await
    }

    async fn serve<A: Accept>(
        &self,
        listener: A,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let service = Service {
            links: self.clone(),
            id: self.0.servers.fetch_add(1, Ordering::Relaxed),
            stopped: Arc::default(),
            refusals: Arc::new(Sparing::new()),
        };
        let (stopping, stopped) = oneshot::channel::<()>();
        let (links, id) = (self.clone(), service.id);
        let flag = Arc::clone(&service.stopped);
        let signal = async move {
            stop.await;
            flag.store(true, Ordering::Release);
            links.close_all_of(id);
            drop(stopping);
        };
        let late = async {
            let _ = stopped.await;
            tokio::time::sleep(STOP_SLACK).await;
        };
        let serving = Server::builder()
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME)
            .max_concurrent_streams(MAX_STREAMS)
            .http2_max_header_list_size(HEADERS)
            .serve_with_incoming_shutdown(Calls::new(service), incoming(listener), signal);
        tokio::select! {
            served = serving => served.map_err(io::Error::other),
            () = late => Ok(()),
        }
    }

    /// Returns the agent of a sandbox, if it is connected.
    #[must_use]
    pub fn get(&self, sandbox: &str) -> Option<AgentLink> {
        self.lock().get(sandbox).cloned()
    }

    /// Waits until the agent of a sandbox is connected. Waits without a limit,
    /// so the caller should add a timeout.
    pub async fn connected(&self, sandbox: &str) -> AgentLink {
        loop {
            let mut came = std::pin::pin!(self.0.came.notified());
            came.as_mut().enable();
            if let Some(link) = self.get(sandbox) {
                return link;
            }
            came.await;
        }
    }

    /// Subscribes to future changes of connections.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<LinkEvent> {
        self.0.events.subscribe()
    }

    /// Closes the connection of a sandbox's agent. The agent reconnects if its
    /// token is still valid.
    pub fn forget(&self, sandbox: &str) {
        if let Some(link) = self.get(sandbox) {
            self.remove(&link);
            link.0.close();
        }
    }

    /// The number of connected agents.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn authenticate(&self) -> &dyn Authenticate {
        &*self.0.authenticate
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Registers a new connection. It replaces an old connection of the same
    /// sandbox.
    pub(crate) fn insert(&self, link: AgentLink) {
        let sandbox = link.0.sandbox.clone();
        let old = self.lock().insert(sandbox.clone(), link);
        if let Some(old) = old {
            old.0.close();
        }
        self.0.came.notify_waiters();
        self.tell(LinkEvent::Connected { sandbox });
    }

    /// Removes a connection, unless another connection has replaced it.
    pub(crate) fn remove(&self, link: &AgentLink) {
        let sandbox = &link.0.sandbox;
        let mut links = self.lock();
        let is_there = |there: &AgentLink| Arc::ptr_eq(&there.0, &link.0);
        if links.get(sandbox).is_some_and(is_there) {
            links.remove(sandbox);
            drop(links);
            self.tell(LinkEvent::Disconnected {
                sandbox: sandbox.clone(),
            });
        }
    }

    fn close_all_of(&self, server: u64) {
        let links: Vec<_> = {
            let links = self.lock();
            let theirs = links.values().filter(|link| link.0.server == server);
            theirs.cloned().collect()
        };
        for link in links {
            self.remove(&link);
            link.0.close();
        }
    }

    fn tell(&self, event: LinkEvent) {
        // There may be no subscriber.
        let _ = self.0.events.send(event);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, AgentLink>> {
        self.0.links.lock()
    }
}

/// Deletes a socket that a server left behind, but no other file.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type().is_socket(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !is_socket || tokio::net::UnixStream::connect(path).await.is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    std::fs::remove_file(path)
}
