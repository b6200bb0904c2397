//! Tunnels: connections to ports in the sandbox and operations on files, each
//! carried by a second stream on the connection with the server.
//!
//! HTTP/2 limits the data on its way in both directions: the agent reads a
//! socket only when the stream can send, and the stream receives only what the
//! socket has taken.

mod port;

use elevo_agent_proto::v1::agent_service_client::AgentServiceClient;
use elevo_agent_proto::v1::open_tunnel::Target;
use elevo_agent_proto::v1::{Failure, FileOperation, OpenTunnel, TunnelPiece};
use elevo_agent_proto::{MAX_TUNNELS, SANDBOX_ID, TUNNEL_ID};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use self::port::FromPort;
use crate::failure;
use crate::files::{self, Exchange};
use crate::log;
use crate::state::Agent;

/// Maximum number of tunnels. The server, which limits them as well, may see the
/// end of a tunnel before the agent does.
const MAX_OPEN: usize = 2 * MAX_TUNNELS;

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
        let socket = match port::connect(port).await {
            Ok(socket) => socket,
            Err(failure) => return self.answer(Err(failure)),
        };
        self.answer(Ok(()));
        let (from_port, to_port) = socket.into_split();
        let (outgoing, other) = FromPort::new(from_port);
        match self.call(outgoing).await {
            Some(inbound) => port::write_port(inbound, to_port, other).await,
            None => port::reset(to_port),
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
        drain(&mut inbound).await;
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

/// Discards pieces until the server ends the stream.
async fn drain(inbound: &mut Streaming<TunnelPiece>) {
    while let Ok(Some(_)) = inbound.message().await {}
}
