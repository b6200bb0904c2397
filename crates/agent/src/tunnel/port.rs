//! Connections to ports in the sandbox.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use elevo_agent_proto::v1::tunnel_piece::Content;
use elevo_agent_proto::v1::{Failure, TunnelPiece};
use elevo_agent_proto::{MAX_PIECE, data_piece, end_piece};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tonic::Streaming;

use super::drain;
use crate::failure;

/// Maximum time until a port accepts a connection.
const TIME_TO_CONNECT: Duration = Duration::from_secs(5);

/// Maximum time to write the data that the server sent before it dropped a
/// tunnel.
const TIME_FOR_REST: Duration = Duration::from_secs(5);

/// Maximum time in which a port takes no data that waits for it. The agent does
/// not learn that the server has dropped a tunnel while such data is in the
/// way, so without this limit the tunnel would never end.
const TIME_TO_TAKE: Duration = Duration::from_secs(60);

/// Connects to a port of the sandbox.
pub(super) async fn connect(port: u16) -> Result<TcpStream, Failure> {
    let hosts = [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::from(Ipv6Addr::LOCALHOST),
    ];
    for host in hosts {
        let connecting = TcpStream::connect((host, port));
        // A process that listens but does not accept leaves connections
        // waiting.
        if let Ok(Ok(socket)) = tokio::time::timeout(TIME_TO_CONNECT, connecting).await {
            if is_own_peer(&socket) {
                // A reset frees the port at once, so that a program can listen
                // on it. A failure only keeps the port busy for a minute.
                let _ = socket.set_zero_linger();
                continue;
            }
            // A failure only makes the connection slower.
            let _ = socket.set_nodelay(true);
            return Ok(socket);
        }
    }
    Err(failure::not_open(port))
}

/// Whether a socket is connected to itself. The kernel can do this if no process
/// listens on a port and it chooses the same port for the socket.
fn is_own_peer(socket: &TcpStream) -> bool {
    match (socket.local_addr(), socket.peer_addr()) {
        (Ok(local), Ok(peer)) => local == peer,
        _ => false,
    }
}

/// Writes the data of a tunnel to a port. Keeps the connection until the other
/// direction has ended as well: a port that takes no more data may still send
/// its response.
pub(super) async fn write_port(
    mut inbound: Streaming<TunnelPiece>,
    mut to_port: OwnedWriteHalf,
    other: OtherDirection,
) {
    let OtherDirection { mut ended, stop } = other;
    let copied = {
        let mut copying = pin!(copy(&mut inbound, &mut to_port));
        tokio::select! {
            copied = &mut copying => copied,
            // The port or the server has cut off the other direction, but data
            // for the port may be here already.
            Err(_) = &mut ended => {
                let last = tokio::time::timeout(TIME_FOR_REST, copying).await;
                last.unwrap_or(Copied::CutOff)
            }
        }
    };
    match copied {
        Copied::CutOff => reset(to_port),
        Copied::Stalled => {
            reset(to_port);
            drop(stop);
            // The return from here resets the stream if the other direction has
            // ended. It may be blocked as well; then the server resets the
            // stream, but not before the agent has received all data.
            tokio::select! {
                () = drain(&mut inbound) => {}
                Err(_) = &mut ended, if !ended.is_terminated() => {}
            }
        }
        Copied::Complete | Copied::Refused => {
            let closing = async {
                if !ended.is_terminated() {
                    // An error says that the other direction is cut off, and so
                    // ends too.
                    let _ = ended.await;
                }
                drop(to_port);
            };
            // The server ends the stream when it has read everything, or when
            // it drops the tunnel. It may still send data that the port has
            // refused.
            tokio::join!(closing, drain(&mut inbound));
            drop(stop);
        }
    }
}

/// How the direction to a port has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied {
    Complete,
    /// The port takes no more data.
    Refused,
    /// The port has taken no data for too long.
    Stalled,
    /// The server has dropped the tunnel.
    CutOff,
}

async fn copy(inbound: &mut Streaming<TunnelPiece>, to_port: &mut OwnedWriteHalf) -> Copied {
    loop {
        let Ok(Some(piece)) = inbound.message().await else {
            return Copied::CutOff;
        };
        match piece.content {
            Some(Content::Data(data)) => {
                if let Err(end) = write(data, to_port).await {
                    return end;
                }
            }
            Some(Content::End(_)) => {
                // A failure means that the port is closed already.
                let _ = to_port.shutdown().await;
                return Copied::Complete;
            }
            _ => {}
        }
    }
}

/// Writes data to a port. Returns the end of the direction if the port does not
/// take all of it.
async fn write(mut data: Bytes, to_port: &mut OwnedWriteHalf) -> Result<(), Copied> {
    while !data.is_empty() {
        let written = tokio::time::timeout(TIME_TO_TAKE, to_port.write(&data)).await;
        match written {
            Ok(Ok(0) | Err(_)) => return Err(Copied::Refused),
            Ok(Ok(count)) => data.advance(count),
            Err(_) => return Err(Copied::Stalled),
        }
    }
    Ok(())
}

/// Closes a connection in a way that its other end sees as a failure.
pub(super) fn reset(to_port: OwnedWriteHalf) {
    // A failure means that the connection is closed already.
    let _ = to_port.as_ref().set_zero_linger();
    to_port.forget();
}

/// The data from a port, as pieces for the server.
pub(super) struct FromPort {
    socket: OwnedReadHalf,
    buffer: BytesMut,
    is_open: bool,
    /// Sends a value at the end of the data, and is dropped if the server stops
    /// reading earlier.
    ended: Option<oneshot::Sender<()>>,
    /// Cuts off this direction when its sender is dropped.
    stopped: oneshot::Receiver<Infallible>,
}

/// The direction from a port, as the direction to the port sees it.
pub(super) struct OtherDirection {
    /// Receives a value at the end of the data, and an error if the direction
    /// was cut off.
    ended: oneshot::Receiver<()>,
    /// Cuts off the direction when it is dropped.
    stop: oneshot::Sender<Infallible>,
}

impl FromPort {
    pub(super) fn new(socket: OwnedReadHalf) -> (Self, OtherDirection) {
        let (sender, ended) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let from_port = Self {
            socket,
            buffer: BytesMut::new(),
            is_open: true,
            ended: Some(sender),
            stopped,
        };
        (from_port, OtherDirection { ended, stop })
    }

    /// Reads once. Returns `None` if there is no data now.
    fn read(&mut self) -> Option<Option<TunnelPiece>> {
        self.buffer.reserve(MAX_PIECE);
        match self.socket.try_read_buf(&mut self.buffer) {
            Ok(0) => {
                self.is_open = false;
                if let Some(ended) = self.ended.take() {
                    // The tunnel may be closing.
                    let _ = ended.send(());
                }
                Some(Some(end_piece()))
            }
            Ok(_) => Some(Some(data_piece(self.buffer.split().freeze()))),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
            Err(_) => {
                self.is_open = false;
                Some(None)
            }
        }
    }
}

impl Stream for FromPort {
    type Item = TunnelPiece;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<TunnelPiece>> {
        if self.is_open && Pin::new(&mut self.stopped).poll(context).is_ready() {
            self.is_open = false;
        }
        while self.is_open {
            let ready = match self.socket.as_ref().poll_read_ready(context) {
                Poll::Ready(ready) => ready,
                Poll::Pending => {
                    // An idle tunnel needs no buffer.
                    self.buffer = BytesMut::new();
                    return Poll::Pending;
                }
            };
            if ready.is_err() {
                break;
            }
            if let Some(piece) = self.read() {
                return Poll::Ready(piece);
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::net::{TcpListener, TcpSocket};
    use tokio_stream::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_socket_that_is_connected_to_itself_is_recognized() {
        let socket = TcpSocket::new_v4().unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        socket.bind(any).unwrap();
        let address = socket.local_addr().unwrap();
        let itself = socket.connect(address).await.unwrap();
        assert!(is_own_peer(&itself));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let other = TcpStream::connect(address).await.unwrap();
        assert!(!is_own_peer(&other));
    }

    #[tokio::test]
    async fn a_port_that_never_reads_stalls_and_a_closed_one_refuses() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = TcpStream::connect(address).await.unwrap();
        let (port, _) = listener.accept().await.unwrap();
        let (_from_port, mut to_port) = socket.into_split();
        // The time passes as soon as nothing else can happen.
        tokio::time::pause();
        let piece = Bytes::from(vec![0; MAX_PIECE]);
        let stalled = loop {
            if let Err(end) = write(piece.clone(), &mut to_port).await {
                break end;
            }
        };
        assert_eq!(stalled, Copied::Stalled);
        tokio::time::resume();
        drop(port);
        let refused = write(piece, &mut to_port).await;
        assert_eq!(refused, Err(Copied::Refused));
    }

    #[tokio::test]
    async fn the_data_from_a_port_is_cut_off_with_the_other_direction() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = TcpStream::connect(address).await.unwrap();
        let (mut from_port, other) = FromPort::new(socket.into_split().0);
        let mut next = pin!(from_port.next());
        let waiting = tokio::time::timeout(Duration::from_millis(10), &mut next);
        assert!(waiting.await.is_err());
        drop(other);
        assert!(next.await.is_none());
    }
}
