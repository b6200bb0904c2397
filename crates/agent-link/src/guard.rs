//! Connections that other code can close, and that close by themselves unless
//! an agent authenticates in time. Every process in a sandbox can reach the
//! socket, so a connection without a token must not use resources for long.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use futures::{Stream, stream};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::transport::server::Connected;

use crate::sparing::Sparing;

/// Maximum time of a connection without a valid token.
const TIME_TO_PROVE: Duration = Duration::from_secs(5);

/// Maximum number of connections without a valid token.
const MAX_UNPROVEN: usize = 4096;

/// Maximum number of connections without a valid token from one sandbox.
/// Without this limit, one sandbox could keep out all others.
const MAX_FROM_ONE: usize = 64;

/// Pause after a failed accept, whose usual cause is the limit of open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const UNPROVEN: u8 = 0;
const PROVEN: u8 = 1;
const CLOSED: u8 = 2;

/// A handle that authenticates or closes one connection.
#[derive(Clone)]
pub(crate) struct Gate(Arc<GateState>);

struct GateState {
    state: AtomicU8,
    /// Whether the connection has sent a token.
    has_tried: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Arc::new(GateState {
            state: AtomicU8::new(UNPROVEN),
            has_tried: AtomicBool::new(false),
            reader: AtomicWaker::new(),
            writer: AtomicWaker::new(),
        }))
    }

    /// Whether the connection may send a token now, which it may do once.
    pub(crate) fn may_try(&self) -> bool {
        !self.0.has_tried.swap(true, Ordering::AcqRel)
    }

    /// Marks the connection as authenticated, so that it may stay.
    pub(crate) fn prove(&self) {
        let state = &self.0.state;
        // A closed connection must stay closed, so the exchange fails for it.
        let _ = state.compare_exchange(UNPROVEN, PROVEN, Ordering::AcqRel, Ordering::Acquire);
        self.0.reader.wake();
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        self.0.state.store(CLOSED, Ordering::Release);
        self.0.reader.wake();
        self.0.writer.wake();
    }

    /// Whether both handles are of the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn state(&self) -> u8 {
        self.0.state.load(Ordering::Acquire)
    }
}

/// A connection behind a [`Gate`].
pub(crate) struct Guarded<T> {
    io: T,
    gate: Gate,
    unproven: Option<(Pin<Box<Sleep>>, Pass)>,
}

impl<T> Guarded<T> {
    fn new(io: T, pass: Pass) -> Self {
        let sleep = Box::pin(tokio::time::sleep(TIME_TO_PROVE));
        Self {
            io,
            gate: Gate::new(),
            unproven: Some((sleep, pass)),
        }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.gate.state() {
            CLOSED => return Err(io::ErrorKind::ConnectionAborted.into()),
            PROVEN => self.unproven = None,
            _ => {}
        }
        let Some((sleep, pass)) = &mut self.unproven else {
            return Ok(());
        };
        if sleep.as_mut().poll(context).is_pending() {
            return Ok(());
        }
        if let Some(more) = pass.unproven.late.turn() {
            tracing::warn!(more, "closed a connection that sent no valid token in time");
        }
        self.unproven = None;
        self.gate.close();
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl<T> Connected for Guarded<T> {
    type ConnectInfo = Gate;

    fn connect_info(&self) -> Gate {
        self.gate.clone()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.gate.0.reader.register(context.waker());
        if let Err(error) = self.check(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> Guarded<T> {
    fn writable(&self, context: &Context<'_>) -> io::Result<()> {
        self.gate.0.writer.register(context.waker());
        match self.gate.state() {
            CLOSED => Err(io::ErrorKind::ConnectionAborted.into()),
            _ => Ok(()),
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Err(error) = self.writable(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.io).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Err(error) = self.writable(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.io).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// The connections without a valid token.
struct Unproven {
    all: Arc<Semaphore>,
    from: Mutex<HashMap<Origin, usize>>,
    late: Sparing,
    many: Sparing,
}

/// Counts one connection without a valid token, until it is dropped.
struct Pass {
    unproven: Arc<Unproven>,
    origin: Option<Origin>,
    _permit: OwnedSemaphorePermit,
}

impl Unproven {
    fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX_UNPROVEN)),
            from: Mutex::default(),
            late: Sparing::new(),
            many: Sparing::new(),
        }
    }

    /// Admits a connection, unless the same origin has too many connections.
    fn admit(
        self: &Arc<Self>,
        origin: Option<Origin>,
        permit: OwnedSemaphorePermit,
    ) -> Option<Pass> {
        if let Some(origin) = origin {
            let mut from = self.from.lock();
            let count = from.entry(origin).or_default();
            if *count >= MAX_FROM_ONE {
                return None;
            }
            *count += 1;
        }
        Some(Pass {
            unproven: Arc::clone(self),
            origin,
            _permit: permit,
        })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Some(origin) = self.origin else {
            return;
        };
        let from = &self.unproven.from;
        let mut from = from.lock();
        if let Some(count) = from.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                from.remove(&origin);
            }
        }
    }
}

/// The inode of the PID namespace of the sandbox that a connection comes from.
type Origin = u64;

/// Returns the PID namespace of a process, if `/proc` shows it and it differs
/// from the namespace of the server.
fn origin(pid: Option<i32>) -> Option<Origin> {
    let space = |process: &str| std::fs::metadata(format!("/proc/{process}/ns/pid")).ok();
    let theirs = space(&pid?.to_string())?.ino();
    (theirs != space("self")?.ino()).then_some(theirs)
}

/// A listener.
pub(crate) trait Accept: Send + Sync {
    /// The type of the listener's connections.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts the next connection.
    fn accept_one(&self) -> impl Future<Output = io::Result<(Self::Io, Option<Origin>)>> + Send;
}

impl Accept for UnixListener {
    type Io = tokio::net::UnixStream;

    async fn accept_one(&self) -> io::Result<(Self::Io, Option<Origin>)> {
        let (stream, _) = self.accept().await?;
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        Ok((stream, origin(pid)))
    }
}

impl Accept for TcpListener {
    type Io = tokio::net::TcpStream;

    async fn accept_one(&self) -> io::Result<(Self::Io, Option<Origin>)> {
        let (stream, _) = self.accept().await?;
        // A failure only makes the connection slower.
        let _ = stream.set_nodelay(true);
        Ok((stream, None))
    }
}

/// Returns all connections of a listener, each behind a [`Gate`]. The stream
/// never ends.
pub(crate) fn incoming<A: Accept>(
    listener: A,
) -> impl Stream<Item = io::Result<Guarded<A::Io>>> + Send {
    let unproven = Arc::new(Unproven::new());
    stream::unfold((listener, unproven), async |(listener, unproven)| {
        loop {
            let permit = Arc::clone(&unproven.all).acquire_owned().await.ok()?;
            let (io, origin) = accept(&listener).await;
            if let Some(pass) = unproven.admit(origin, permit) {
                return Some((Ok(Guarded::new(io, pass)), (listener, unproven)));
            }
            if let Some(more) = unproven.many.turn() {
                tracing::warn!(
                    more,
                    "closed a connection: its sandbox has too many connections without a valid token"
                );
            }
        }
    })
}

async fn accept<A: Accept>(listener: &A) -> (A::Io, Option<Origin>) {
    loop {
        match listener.accept_one().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept the connection of a workspace agent");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
