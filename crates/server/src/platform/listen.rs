//! Accepts connections of clients: limited in number and in time, with TLS if
//! it is configured. Supports only HTTP/1.1.

pub(crate) mod connection;
pub(crate) mod paced;
pub(crate) mod places;
pub(crate) mod stream;
pub(crate) mod tls;

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, Response, StatusCode};
use bytes::Bytes;
use elevo_api::ErrorEnvelope;
use elevo_core::ErrorCode;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::failure::Failure;
use crate::platform::listen::connection::Connection;
use crate::platform::listen::paced::Paced;
pub(crate) use crate::platform::listen::places::Place;
use crate::platform::listen::places::{Places, Work};
use crate::platform::listen::stream::Stream;
pub(crate) use crate::platform::listen::tls::Certificate;

/// Maximum time of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum time that a new connection waits while its address has too many
/// connections without a key.
const TURN: Duration = Duration::from_secs(30);
/// Maximum size of a request's headers.
const HEADERS: usize = 64 << 10;
/// Maximum connections beyond the limit that receive an error response at the
/// same time; further connections are closed without one.
const REFUSED: usize = 64;
/// Maximum time to send such an error response.
const REFUSING: Duration = Duration::from_secs(5);

/// The client of a request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The address of the client. A trusted proxy may state it.
    pub(crate) address: IpAddr,
    /// Whether a trusted proxy sent the request.
    pub(crate) is_proxy: bool,
    pub(crate) place: Arc<Place>,
}

/// A listener, and the settings of its connections.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<Arc<Certificate>>,
    /// Maximum number of connections.
    pub(crate) most: u32,
    pub(crate) router: Router,
    /// Proxies whose `X-Forwarded-…` headers are trusted.
    pub(crate) trusted: Arc<[IpNet]>,
}

impl Door {
    /// Accepts connections until `stop` is cancelled, and then waits until all
    /// connections have ended.
    pub(crate) async fn serve(self, stop: CancellationToken) {
        let places = Places::new(self.most as usize);
        let refusals = Arc::new(Semaphore::new(REFUSED));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                () = stop.cancelled() => break,
            };
            let Ok((stream, address)) = accepted else {
                // The usual cause is that the process has no free file
                // descriptor.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            // Without this option, the kernel delays small responses.
            let _ = stream.set_nodelay(true);
            keep_alive(&stream);
            let address = address.ip().to_canonical();
            // All clients of a proxy have the address of the proxy, so it does
            // not count for one client.
            let is_proxy = is_trusted(&self.trusted, address);
            let tls = self.tls.as_ref().map(|tls| tls.acceptor());
            match places.take((!is_proxy).then_some(address)) {
                Some(place) => {
                    let guest = Guest {
                        address,
                        place: Arc::new(place),
                        router: self.router.clone(),
                        trusted: self.trusted.clone(),
                    };
                    connections.spawn(guest.attend(stream, tls, stop.clone()));
                }
                None => {
                    // Beyond the limit of rejections, connections are closed
                    // immediately.
                    if let Ok(permit) = refusals.clone().try_acquire_owned() {
                        connections.spawn(async move {
                            let _ = tokio::time::timeout(REFUSING, refuse(stream, tls)).await;
                            drop(permit);
                        });
                    }
                }
            }
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }
}

/// A connection that was admitted, with its place.
struct Guest {
    address: IpAddr,
    place: Arc<Place>,
    router: Router,
    trusted: Arc<[IpNet]>,
}

impl Guest {
    async fn attend(self, stream: TcpStream, tls: Option<TlsAcceptor>, stop: CancellationToken) {
        let place = self.place.clone();
        tokio::select! {
            () = place.evicted() => {}
            () = self.attend_unless_evicted(stream, tls, stop) => {}
        }
    }

    async fn attend_unless_evicted(
        self,
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
        stop: CancellationToken,
    ) {
        let stream = tokio::select! {
            stream = self.welcome(stream, tls) => stream,
            () = stop.cancelled() => None,
        };
        let Some(stream) = stream else {
            return;
        };
        let connection = Connection::new(stream, self.place.clone());
        let guest = Arc::new(self);
        // The request counts as running before its response is first polled.
        let service = service_fn(move |request| guest.clone().answer(request, guest.place.work()));
        let mut builder = http1::Builder::new();
        // `Connection` limits the time for headers.
        builder.header_read_timeout(None).max_header_size(HEADERS);
        let serving = builder.serve_connection(TokioIo::new(connection), service);
        let mut serving = std::pin::pin!(serving.with_upgrades());
        tokio::select! {
            // A client that disconnects is not an error.
            _ = serving.as_mut() => return,
            () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
        }
        let _ = serving.await;
    }

    /// Waits for the turn of a connection, and for its TLS handshake. Returns
    /// `None` if the connection was rejected.
    async fn welcome(&self, stream: TcpStream, tls: Option<TlsAcceptor>) -> Option<Stream> {
        if tokio::time::timeout(TURN, self.place.turn()).await.is_err() {
            let _ = tokio::time::timeout(REFUSING, refuse(stream, tls)).await;
            return None;
        }
        shaken(stream, tls).await
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        work: Work,
    ) -> Result<Response<Body>, Infallible> {
        let mut request = request.map(|body| Body::new(Paced::new(body)));
        let peer = Peer {
            address: client(&self.trusted, self.address, request.headers()),
            is_proxy: is_trusted(&self.trusted, self.address),
            place: self.place.clone(),
        };
        request.extensions_mut().insert(ConnectInfo(peer));
        let response = self.router.clone().oneshot(request).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.place.upgrade();
        }
        Ok(response.map(|body| Body::new(Answer { body, _work: work })))
    }
}

/// The body of a response. The request counts as running until the body is
/// dropped.
struct Answer {
    body: Body,
    _work: Work,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn is_trusted(trusted: &[IpNet], address: IpAddr) -> bool {
    trusted.iter().any(|network| network.contains(&address))
}

/// Returns the address of a client. If a trusted proxy sent the request, this
/// is the last address in `X-Forwarded-For` that is not a trusted proxy.
fn client(trusted: &[IpNet], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let mut found = peer;
    let lines = headers.get_all("x-forwarded-for");
    let lines: Vec<_> = lines.iter().filter_map(|line| line.to_str().ok()).collect();
    let names = lines.iter().rev().flat_map(|line| line.rsplit(','));
    for name in names {
        if !is_trusted(trusted, found) {
            break;
        }
        let Ok(address) = name.trim().parse::<IpAddr>() else {
            break;
        };
        found = address.to_canonical();
    }
    found
}

async fn shaken(stream: TcpStream, tls: Option<TlsAcceptor>) -> Option<Stream> {
    let Some(tls) = tls else {
        return Some(Stream::Plain(stream));
    };
    match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(Stream::Tls(Box::new(stream))),
        _ => None,
    }
}

/// Lets the kernel detect clients that are gone.
fn keep_alive(stream: &TcpStream) {
    use rustix::net::sockopt;
    let set = || -> rustix::io::Result<()> {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, Duration::from_secs(60))?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(15))?;
        sockopt::set_tcp_keepcnt(stream, 4)
    };
    // A failure is harmless: the server only notices later that a client is
    // gone.
    let _ = set();
}

/// Returns the error response to a connection beyond the limit.
fn refusal() -> Vec<u8> {
    let message = "the server has reached its maximum number of connections";
    let failure = Failure::new(ErrorCode::Overloaded, message);
    let error = failure.body("");
    let body = serde_json::to_string(&ErrorEnvelope { error }).unwrap_or_default();
    let length = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
         retry-after: 1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Sends an error response and closes the connection. Also reads the bytes that
/// the client sends: a close with unread bytes would lose the response.
async fn refuse(stream: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<()> {
    let Some(mut stream) = shaken(stream, tls).await else {
        return Ok(());
    };
    let mut rest = [0; 4096];
    // The request is read first, because a client does not expect a response
    // before it has sent a request.
    let _ = stream.read(&mut rest).await?;
    stream.write_all(&refusal()).await?;
    stream.shutdown().await?;
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_name_the_client() {
        let trusted = ["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        let of = |peer: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            client(&trusted, peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(of("192.0.2.1", &["198.51.100.1"]), "192.0.2.1");
        assert_eq!(of("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(of("10.0.0.1", &["198.51.100.1"]), "198.51.100.1");
        // The client forged the first address.
        let two = ["203.0.113.9, 198.51.100.1"];
        assert_eq!(of("::1", &two), "198.51.100.1");
        let chain = ["203.0.113.9", "198.51.100.1, 10.0.0.2"];
        assert_eq!(of("10.0.0.1", &chain), "198.51.100.1");
        assert_eq!(of("10.0.0.1", &["nonsense"]), "10.0.0.1");
        assert_eq!(of("10.0.0.1", &["::ffff:198.51.100.1"]), "198.51.100.1");
    }
}
