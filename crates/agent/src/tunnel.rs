//! Tunnels: connections to ports in the sandbox and operations on files, each
//! carried by a second stream on the connection with the server.
//!
//! HTTP/2 limits the data on its way in both directions: the agent reads a
//! socket only when the stream can send, and the stream receives only what the
//! socket has taken.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use elevo_agent_proto::v1::agent_service_client::AgentServiceClient;
use elevo_agent_proto::v1::open_tunnel::Target;
use elevo_agent_proto::v1::tunnel_piece::Content;
use elevo_agent_proto::v1::{Failure, FileOperation, OpenTunnel, TunnelPiece};
use elevo_agent_proto::{MAX_PIECE, MAX_TUNNELS, SANDBOX_ID, TUNNEL_ID, data_piece, end_piece};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::failure;
use crate::files::{self, Exchange};
use crate::log;
use crate::state::Agent;

/// Maximum number of tunnels. The server, which limits them as well, may see the
/// end of a tunnel before the agent does.
const MAX_OPEN: usize = 2 * MAX_TUNNELS;

/// Maximum time until a port accepts a connection.
const TIME_TO_CONNECT: Duration = Duration::from_secs(5);

/// Maximum time to write the data that the server sent before it dropped a
/// tunnel.
const TIME_FOR_REST: Duration = Duration::from_secs(5);

/// The tunnels of one connection with the server. They end with it.
pub(crate) struct Tunnels {
    client: AgentServiceClient<Channel>,
    sandbox: MetadataValue<Ascii>,
    tasks: JoinSet<()>,
}

/// The request of a tunnel.
struct Asked {
    agent: Agent,
    client: AgentServiceClient<Channel>,
    sandbox: MetadataValue<Ascii>,
    tunnel_id: u64,
    request_id: u64,
    received_us: i64,
}

impl Tunnels {
    pub(crate) fn new(client: AgentServiceClient<Channel>, sandbox: MetadataValue<Ascii>) -> Self {
        Self {
            client,
            sandbox,
            tasks: JoinSet::new(),
        }
    }

    /// Starts to open a tunnel. The request is answered later if this returns
    /// no failure.
    pub(crate) fn open(
        &mut self,
        agent: &Agent,
        request: OpenTunnel,
        (request_id, received_us): (u64, i64),
    ) -> Result<(), Failure> {
        while self.tasks.try_join_next().is_some() {}
        if self.tasks.len() >= MAX_OPEN {
            return Err(failure::too_many("tunnels", MAX_TUNNELS));
        }
        let asked = Asked {
            agent: agent.clone(),
            client: self.client.clone(),
            sandbox: self.sandbox.clone(),
            tunnel_id: request.tunnel_id,
            request_id,
            received_us,
        };
        match request.target {
            Some(Target::Port(port)) => {
                let port = u16::try_from(port).ok().filter(|port| *port != 0);
                let port = port.ok_or_else(|| failure::invalid("not the number of a port"))?;
                self.tasks.spawn(asked.serve_port(port));
                Ok(())
            }
            Some(Target::File(operation)) => {
                self.tasks.spawn(asked.serve_file(operation));
                Ok(())
            }
            None => Err(failure::invalid(
                "this version of the agent does not support the kind of tunnel",
            )),
        }
    }
}

impl Asked {
    async fn serve_port(self, port: u16) {
        let socket = match connect(port).await {
            Ok(socket) => socket,
            Err(failure) => return self.answer(Err(failure)),
        };
        self.answer(Ok(()));
        let (from_port, to_port) = socket.into_split();
        let (outgoing, ended) = FromPort::new(from_port);
        match self.call(outgoing).await {
            Some(inbound) => write_port(inbound, to_port, ended).await,
            None => reset(to_port),
        }
    }

    async fn serve_file(self, operation: FileOperation) {
        // The first piece of the tunnel reports a failure.
        self.answer(Ok(()));
        let (outgoing, pieces) = mpsc::channel(1);
        let Some(inbound) = self.call(ReceiverStream::new(pieces)).await else {
            return;
        };
        let mut exchange = Exchange { inbound, outgoing };
        files::serve(operation, &mut exchange).await;
        let Exchange {
            mut inbound,
            outgoing,
        } = exchange;
        drop(outgoing);
        // The server ends the stream when it has read everything. It may still
        // send data for an operation that has failed.
        while let Ok(Some(_)) = inbound.message().await {}
    }

    fn answer(&self, result: Result<(), Failure>) {
        self.agent.answer(self.request_id, result, self.received_us);
    }

    /// Opens the stream of the tunnel.
    async fn call(
        &self,
        outgoing: impl Stream<Item = TunnelPiece> + Send + 'static,
    ) -> Option<Streaming<TunnelPiece>> {
        let mut request = Request::new(outgoing);
        let metadata = request.metadata_mut();
        metadata.insert(SANDBOX_ID, self.sandbox.clone());
        metadata.insert(TUNNEL_ID, self.tunnel_id.into());
        match self.client.clone().tunnel(request).await {
            Ok(response) => Some(response.into_inner()),
            Err(status) => {
                log::debug(format_args!("cannot open a tunnel: {}", status.message()));
                None
            }
        }
    }
}

async fn connect(port: u16) -> Result<TcpStream, Failure> {
    let hosts = [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::from(Ipv6Addr::LOCALHOST),
    ];
    for host in hosts {
        let connecting = TcpStream::connect((host, port));
        // A process that listens but does not accept leaves connections
        // waiting.
        if let Ok(Ok(socket)) = tokio::time::timeout(TIME_TO_CONNECT, connecting).await {
            // A failure only makes the connection slower.
            let _ = socket.set_nodelay(true);
            return Ok(socket);
        }
    }
    Err(failure::not_open(port))
}

/// Writes the data of a tunnel to a port. Keeps the connection until the other
/// direction has ended as well: a port that takes no more data may still send
/// its response.
async fn write_port(
    mut inbound: Streaming<TunnelPiece>,
    mut to_port: OwnedWriteHalf,
    mut ended: oneshot::Receiver<()>,
) {
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
    if copied == Copied::CutOff {
        return reset(to_port);
    }
    if !ended.is_terminated() {
        // An error says that the other direction is cut off, and so ends too.
        let _ = ended.await;
    }
    drop(to_port);
    // The server ends the stream when it has read everything.
    while let Ok(Some(_)) = inbound.message().await {}
}

/// How the direction to a port has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    Complete,
    /// The port takes no more data.
    Refused,
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
                let written = to_port.write_all(&data).await;
                if written.is_err() {
                    return Copied::Refused;
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

/// Closes a connection in a way that its other end sees as a failure.
fn reset(to_port: OwnedWriteHalf) {
    // A failure means that the connection is closed already.
    let _ = to_port.as_ref().set_zero_linger();
    to_port.forget();
}

/// The data from a port, as pieces for the server.
struct FromPort {
    socket: OwnedReadHalf,
    buffer: BytesMut,
    is_open: bool,
    /// Sends a value at the end of the data, and is dropped if the server stops
    /// reading earlier.
    ended: Option<oneshot::Sender<()>>,
}

impl FromPort {
    fn new(socket: OwnedReadHalf) -> (Self, oneshot::Receiver<()>) {
        let (sender, ended) = oneshot::channel();
        let from_port = Self {
            socket,
            buffer: BytesMut::new(),
            is_open: true,
            ended: Some(sender),
        };
        (from_port, ended)
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
