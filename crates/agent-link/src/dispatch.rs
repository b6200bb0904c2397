//! Gives each call of an agent its limit on the size of a message.

use std::convert::Infallible;
use std::task::{Context, Poll};

use elevo_agent_proto::v1::agent_service_server::AgentServiceServer;
use elevo_agent_proto::{MAX_MESSAGE, MAX_PIECE_MESSAGE};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service as Call, http};

use crate::service::Service;

/// The path of the call `Tunnel`.
const TUNNEL: &str = "/workspace.agent.v1.AgentService/Tunnel";

/// The service with two limits: an agent has one stream of messages, but many
/// tunnels, and each stream buffers a whole message.
#[derive(Clone)]
pub(crate) struct Calls {
    messages: AgentServiceServer<Service>,
    tunnels: AgentServiceServer<Service>,
}

impl Calls {
    pub(crate) fn new(service: Service) -> Self {
        let messages = AgentServiceServer::new(service.clone());
        let tunnels = AgentServiceServer::new(service);
        Self {
            messages: messages.max_decoding_message_size(MAX_MESSAGE),
            tunnels: tunnels.max_decoding_message_size(MAX_PIECE_MESSAGE),
        }
    }
}

impl Call<http::Request<Body>> for Calls {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match request.uri().path() == TUNNEL {
            true => self.tunnels.call(request),
            false => self.messages.call(request),
        }
    }
}
