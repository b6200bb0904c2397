//! Tunnels: second streams on the connection of an agent, each of which carries
//! the bytes of one connection to a port in the sandbox, or one operation on
//! files.
//!
//! The server requests a tunnel and waits; the agent opens its target and then
//! the stream. Only the connection that received the request may open
//! the stream, only with the id of the request, and only once. So no stream
//! needs a separate token.

pub(crate) mod files;
mod pipe;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use elevo_agent_proto::v1::open_tunnel::Target;
use elevo_agent_proto::v1::server_message::Payload;
use elevo_agent_proto::v1::{self, TunnelPiece};
use elevo_agent_proto::{MAX_TUNNELS, SANDBOX_ID, TUNNEL_ID};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

pub use self::files::{
    FileCondition, FileFailure, FileKind, FileList, FileStat, FileUpload, OpenFile, PutFile,
};
pub(crate) use self::pipe::Pieces;
use self::pipe::{PipeWriter, pipe};
pub use self::stream::TunnelStream;
use crate::error::LinkError;
use crate::guard::Gate;
use crate::link::{AgentLink, Link};
use crate::service::Service;

/// Maximum time until the agent has opened a tunnel.
const TIME_TO_OPEN: Duration = Duration::from_secs(10);

/// Maximum time until another tunnel makes room. A tunnel that was just dropped
/// keeps its place until its stream has ended.
const TIME_FOR_PLACE: Duration = Duration::from_secs(2);

/// A stream that the agent has opened for a requested tunnel.
pub(crate) struct Arrived {
    inbound: Streaming<TunnelPiece>,
    outbound: PipeWriter,
}

impl AgentLink {
    /// Connects to a TCP port in the sandbox: of `127.0.0.1`, or else of
    /// `::1`.
    ///
    /// # Errors
    ///
    /// [`LinkError::NotOpen`] if no process accepts connections on the port;
    /// [`LinkError::TooMany`] if the sandbox has the maximum number of tunnels.
    pub async fn open_port(&self, port: u16) -> Result<TunnelStream, LinkError> {
        self.open_tunnel(Target::Port(port.into())).await
    }

    async fn open_tunnel(&self, target: Target) -> Result<TunnelStream, LinkError> {
        let (arrived, place) = self.0.open_tunnel(target).await?;
        Ok(TunnelStream::new(arrived, place))
    }
}

impl Link {
    async fn open_tunnel(
        self: &Arc<Self>,
        target: Target,
    ) -> Result<(Arrived, OwnedSemaphorePermit), LinkError> {
        let place = Arc::clone(&self.tunnels).acquire_owned();
        let place = tokio::time::timeout(TIME_FOR_PLACE, place).await;
        let Ok(Ok(place)) = place else {
            return Err(LinkError::TooMany {
                what: "tunnels".to_owned(),
                limit: MAX_TUNNELS as u64,
            });
        };
        let (expected, arrival) = Expected::new(self)?;
        let request = Payload::OpenTunnel(v1::OpenTunnel {
            tunnel_id: expected.id,
            target: Some(target),
        });
        let opening = async {
            self.request(request).await?;
            arrival.await.map_err(|_| LinkError::Disconnected)
        };
        let opened = tokio::time::timeout(TIME_TO_OPEN, opening).await;
        let arrived = opened.map_err(|_| LinkError::TimedOut)??;
        Ok((arrived, place))
    }

    /// Starts to expect the stream of a tunnel. Returns the tunnel's id.
    #[allow(
        clippy::disallowed_methods,
        reason = "an agent must not be able to guess the id"
    )]
    fn expect(&self, arrival: oneshot::Sender<Arrived>) -> Result<u64, LinkError> {
        let mut state = self.lock();
        if state.is_closed() {
            return Err(LinkError::Disconnected);
        }
        loop {
            let id = rand::random::<u64>();
            if id != 0 && !state.expected.contains_key(&id) {
                state.expected.insert(id, arrival);
                return Ok(id);
            }
        }
    }
}

/// The wait for the stream of one tunnel. When it is dropped, the stream is no
/// longer accepted.
struct Expected<'a> {
    link: &'a Link,
    id: u64,
}

impl<'a> Expected<'a> {
    fn new(link: &'a Link) -> Result<(Self, oneshot::Receiver<Arrived>), LinkError> {
        let (sender, arrival) = oneshot::channel();
        let id = link.expect(sender)?;
        Ok((Self { link, id }, arrival))
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.link.lock().expected.remove(&self.id);
    }
}

impl Service {
    /// Passes a new stream to the request that waits for it.
    pub(crate) fn accept_tunnel(
        &self,
        request: Request<Streaming<TunnelPiece>>,
    ) -> Result<Response<Pieces>, Status> {
        let gate = request.extensions().get::<Gate>();
        let arrival = gate.and_then(|gate| self.expected(request.metadata(), gate));
        let (outbound, pieces) = pipe();
        let arrived = Arrived {
            inbound: request.into_inner(),
            outbound,
        };
        if let Some(arrival) = arrival
            && arrival.send(arrived).is_ok()
        {
            return Ok(Response::new(pieces));
        }
        // The server may have stopped waiting: a late agent is not hostile.
        if let Some(more) = self.refusals.turn() {
            tracing::debug!(more, "rejected a tunnel that the server does not expect");
        }
        Err(Status::not_found("the server does not expect this tunnel"))
    }

    fn expected(&self, metadata: &MetadataMap, gate: &Gate) -> Option<oneshot::Sender<Arrived>> {
        let text = |key| metadata.get(key).and_then(|value| value.to_str().ok());
        let id = text(TUNNEL_ID)?.parse().ok()?;
        let link = self.links.get(text(SANDBOX_ID)?)?;
        match link.0.is_behind(gate) {
            true => link.0.lock().expected.remove(&id),
            false => None,
        }
    }
}
