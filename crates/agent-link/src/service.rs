//! The gRPC service: authenticates an agent, then serves its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use elevo_agent_proto::v1::agent_message::Payload;
use elevo_agent_proto::v1::agent_service_server::AgentService;
use elevo_agent_proto::v1::server_message::Payload as ServerPayload;
use elevo_agent_proto::v1::{self, AgentMessage, ServerMessage, TunnelPiece};
use elevo_agent_proto::{AUTHORIZATION, BEARER, SANDBOX_ID};
use tokio::sync::mpsc;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::guard::Gate;
use crate::link::{AgentLink, Link};
use crate::links::AgentLinks;
use crate::outgoing::{Notes, Outgoing};
use crate::sparing::Sparing;
use crate::tunnel::Pieces;

/// Maximum time until the agent of a new stream registers.
const TIME_TO_REGISTER: Duration = Duration::from_secs(10);

/// Number of missed heartbeats after which an agent is disconnected.
const MISSED_HEARTBEATS: u32 = 3;

/// Maximum number of requests that wait to be sent.
const REQUESTS: usize = 64;

/// Maximum length of a sandbox id.
const MAX_SANDBOX_ID: usize = 256;

/// The service on one listener.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) links: AgentLinks,
    pub(crate) id: u64,
    pub(crate) stopped: Arc<AtomicBool>,
    pub(crate) refusals: Arc<Sparing>,
}

#[tonic::async_trait]
impl AgentService for Service {
    type ConnectStream = Outgoing;
    type TunnelStream = Pieces;

    async fn connect(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Outgoing>, Status> {
        let gate = request.extensions().get::<Gate>().cloned();
        let gate = gate.ok_or_else(|| Status::internal("the connection has no gate"))?;
        // Every check of a token costs a query, and every process in a sandbox
        // can open a connection with many streams.
        if !gate.may_try() {
            let message = "the connection has used its only call of Connect";
            return Err(Status::resource_exhausted(message));
        }
        let sandbox = self.authenticated(request.metadata()).await?;
        gate.prove();
        let (requests, receiver) = mpsc::channel(REQUESTS);
        let notes = Arc::new(Notes::default());
        let outgoing = Outgoing::new(receiver, Arc::clone(&notes));
        let service = self.clone();
        tokio::spawn(async move {
            let parts = (requests, notes, gate.clone());
            service.session(sandbox, request.into_inner(), parts).await;
            gate.close();
        });
        Ok(Response::new(outgoing))
    }

    async fn tunnel(
        &self,
        request: Request<Streaming<TunnelPiece>>,
    ) -> Result<Response<Pieces>, Status> {
        self.accept_tunnel(request)
    }
}

type Parts = (mpsc::Sender<ServerMessage>, Arc<Notes>, Gate);

impl Service {
    /// Returns the sandbox that the metadata names, if the token in the
    /// metadata belongs to it.
    async fn authenticated(&self, metadata: &MetadataMap) -> Result<String, Status> {
        let text = |key| metadata.get(key).and_then(|value| value.to_str().ok());
        let sandbox = text(SANDBOX_ID).unwrap_or_default();
        let token = text(AUTHORIZATION).and_then(|value| value.strip_prefix(BEARER));
        let is_right = match token {
            Some(token) if (1..=MAX_SANDBOX_ID).contains(&sandbox.len()) => {
                self.links.authenticate().is_right(sandbox, token).await
            }
            _ => false,
        };
        if is_right {
            return Ok(sandbox.to_owned());
        }
        if let Some(more) = self.refusals.turn() {
            let sandbox = &sandbox[..sandbox.floor_char_boundary(MAX_SANDBOX_ID)];
            tracing::warn!(
                sandbox,
                more,
                "rejected a workspace agent with a wrong token"
            );
        }
        let message = "the token does not belong to the sandbox";
        Err(Status::unauthenticated(message))
    }

    /// Serves one stream to its end.
    async fn session(&self, sandbox: String, mut inbound: Streaming<AgentMessage>, parts: Parts) {
        let first = tokio::time::timeout(TIME_TO_REGISTER, inbound.message()).await;
        let Ok(Ok(Some(AgentMessage {
            payload: Some(Payload::Register(register)),
            ..
        }))) = first
        else {
            tracing::warn!(sandbox, "a workspace agent connected but did not register");
            return;
        };
        if register.sandbox_id != sandbox {
            tracing::warn!(
                sandbox,
                "a workspace agent sent the token of one sandbox and the id of another"
            );
            return;
        }
        let Some(link) = self.register(sandbox, register, parts) else {
            return;
        };
        let reason = self.receive(&link, &mut inbound).await;
        tracing::info!(
            sandbox = link.0.sandbox,
            reason,
            "an agent has disconnected"
        );
        self.links.remove(&link);
        link.0.close();
    }

    fn register(
        &self,
        sandbox: String,
        register: v1::RegisterRequest,
        parts: Parts,
    ) -> Option<AgentLink> {
        let settings = self.links.settings();
        // The queue is empty, so there is space.
        let _ = parts.0.try_send(self.welcome());
        let version = register.agent_version;
        let link = Link::new(
            sandbox,
            version,
            self.id,
            (settings.window, settings.observe),
            parts,
        );
        for process in register.processes {
            let taken = link.lock().put_process(process);
            if let Err(violation) = taken {
                tracing::warn!(
                    sandbox = link.sandbox,
                    reason = violation.0,
                    "rejected a workspace agent that violates the protocol"
                );
                return None;
            }
        }
        let link = AgentLink(Arc::new(link));
        if self.stopped.load(Ordering::Acquire) {
            return None;
        }
        tracing::info!(
            sandbox = link.0.sandbox,
            version = link.0.version,
            "an agent has connected"
        );
        self.links.insert(link.clone());
        // A stop sets the flag before it closes the links. So either the stop
        // finds this link, or this check sees the flag.
        if self.stopped.load(Ordering::Acquire) {
            link.0.close();
        }
        Some(link)
    }

    fn welcome(&self) -> ServerMessage {
        let settings = self.links.settings();
        let heartbeat = settings.heartbeat;
        let config = v1::ServerConfig {
            heartbeat_interval_seconds: i32::try_from(heartbeat.as_secs()).unwrap_or(i32::MAX),
            heartbeat_interval_ms: u32::try_from(heartbeat.as_millis()).unwrap_or(u32::MAX),
            max_output_buffer_size: i32::try_from(settings.output_buffer).unwrap_or(i32::MAX),
            max_terminals: settings.terminals,
        };
        ServerMessage {
            payload: Some(ServerPayload::RegisterResponse(v1::RegisterResponse {
                success: true,
                message: String::new(),
                config: Some(config),
            })),
            request_id: 0,
        }
    }

    /// Processes messages until the stream ends. Returns the reason for the
    /// end.
    async fn receive(
        &self,
        link: &AgentLink,
        inbound: &mut Streaming<AgentMessage>,
    ) -> &'static str {
        let patience = self.links.settings().heartbeat * MISSED_HEARTBEATS;
        loop {
            match tokio::time::timeout(patience, inbound.message()).await {
                Err(_) => return "the agent sent no heartbeat for too long",
                Ok(Err(_)) => return "the connection broke",
                Ok(Ok(None)) => return "the agent closed the connection",
                Ok(Ok(Some(message))) => {
                    if let Err(violation) = link.0.receive(message) {
                        return violation.0;
                    }
                }
            }
        }
    }
}
