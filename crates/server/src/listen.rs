//! Connections of clients: a bounded number, with TLS where it is set.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use elevo_api::ErrorEnvelope;
use elevo_core::ErrorCode;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::Tls;
use crate::failure::Failure;

const HANDSHAKE: Duration = Duration::from_secs(10);

/// Gives connections that are ready to be served.
#[derive(Debug)]
pub(crate) struct Listener {
    ready: mpsc::Receiver<(Connection, SocketAddr)>,
    address: SocketAddr,
}

/// A connection; gives back its place when it is dropped.
pub(crate) struct Connection {
    stream: Stream,
    /// Until when, and how much, is read of what nobody needs.
    leaving: Option<(Pin<Box<Sleep>>, usize)>,
    _place: OwnedSemaphorePermit,
}

/// How long a client that is still sending has to hear the answer.
const LEAVING: Duration = Duration::from_secs(2);
/// What it may send meanwhile.
const LEFT: usize = 256 << 20;

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Reads a certificate and its key.
pub(crate) fn acceptor(tls: &Tls) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read {}", tls.certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .with_context(|| format!("cannot read {}", tls.key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("the certificate and its key do not go together")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl Listener {
    pub(crate) fn new(listener: TcpListener, tls: Option<TlsAcceptor>, most: u32) -> Self {
        let address = listener
            .local_addr()
            .unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 0)));
        let (sender, ready) = mpsc::channel(64);
        let places = Arc::new(Semaphore::new(most as usize));
        tokio::spawn(accept_all(listener, tls, places, sender));
        Self { ready, address }
    }
}

/// Connections beyond the limit that are told so at the same time; more wait.
const REFUSED: usize = 64;
/// How long one of them has.
const REFUSING: Duration = Duration::from_secs(5);

/// What is said to a client when there are too many.
fn refusal() -> Vec<u8> {
    let message = "the server has too many connections";
    let failure = Failure::new(ErrorCode::Overloaded, message);
    let error = crate::http::body_of(&failure, "");
    let body = serde_json::to_string(&ErrorEnvelope { error }).unwrap_or_default();
    let length = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
         retry-after: 1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Says so. It is read from as well: a connection that is closed with bytes in it
/// loses what was written to it.
async fn refuse(mut stream: Stream) -> io::Result<()> {
    let mut rest = [0; 4096];
    // Nobody expects an answer before they have asked.
    let _ = stream.read(&mut rest).await?;
    stream.write_all(&refusal()).await?;
    stream.shutdown().await?;
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Accepts while there are places; handshakes don't hold up each other.
async fn accept_all(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    places: Arc<Semaphore>,
    ready: mpsc::Sender<(Connection, SocketAddr)>,
) {
    let refusals = Arc::new(Semaphore::new(REFUSED));
    loop {
        let Ok(refusing) = refusals.clone().acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        let Ok((stream, address)) = accepted else {
            // Out of file descriptors, most likely.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Small answers leave at once.
        let _ = stream.set_nodelay(true);
        let place = places.clone().try_acquire_owned().ok();
        let refusing = place.is_none().then_some(refusing);
        let (tls, ready) = (tls.clone(), ready.clone());
        tokio::spawn(async move {
            let stream = match tls {
                None => Stream::Plain(stream),
                Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                    _ => return,
                },
            };
            let Some(place) = place else {
                // Whoever does not listen has been told.
                let _ = tokio::time::timeout(REFUSING, refuse(stream)).await;
                return drop(refusing);
            };
            let connection = Connection {
                stream,
                leaving: None,
                _place: place,
            };
            let _ = ready.send((connection, address)).await;
        });
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.ready.recv().await {
            Some(ready) => ready,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// Says that nothing more will come, and then reads for a while what still
    /// does: a connection that is closed with bytes in it loses what was written
    /// to it, and whoever sends too much would not hear so.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.leaving.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        let until = || (Box::pin(tokio::time::sleep(LEAVING)), LEFT);
        let (until, left) = this.leaving.get_or_insert_with(until);
        let mut rest = [0; 8192];
        while *left > 0 && until.as_mut().poll(context).is_pending() {
            let mut rest = ReadBuf::new(&mut rest);
            match ready!(Pin::new(&mut this.stream).poll_read(context, &mut rest)) {
                Ok(()) if !rest.filled().is_empty() => {
                    *left = left.saturating_sub(rest.filled().len());
                }
                // It has gone.
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        }
    }
}
