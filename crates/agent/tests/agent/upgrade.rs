//! The agent understands the recorded messages of every earlier server
//! (`crates/agent-proto/fixtures`): a warm sandbox may have a newer agent than
//! the server that is put back after an upgrade. Paths and ports are those of
//! this machine; all else is as the server sent it.

use std::path::{Path, PathBuf};
use std::pin::Pin;

use elevo_agent_proto::Message;
use elevo_agent_proto::v1::agent_message::Payload;
use elevo_agent_proto::v1::agent_service_server::{AgentService, AgentServiceServer};
use elevo_agent_proto::v1::open_tunnel::Target;
use elevo_agent_proto::v1::server_message::Payload as ServerPayload;
use elevo_agent_proto::v1::tunnel_piece::Content;
use elevo_agent_proto::v1::{
    AgentMessage, FailureKind, OutputType, ServerMessage, TunnelPiece, pty_output,
};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server as GrpcServer;
use tonic::{Request, Response, Status, Streaming};

use crate::support::{Agent, until, within};

/// The connection of an agent, and the data of its tunnels.
struct Accepting {
    connections: mpsc::Sender<(Streaming<AgentMessage>, ToAgent)>,
    tunnels: mpsc::Sender<TunnelPiece>,
}

type ToAgent = mpsc::Sender<Result<ServerMessage, Status>>;

#[tonic::async_trait]
impl AgentService for Accepting {
    type ConnectStream = ReceiverStream<Result<ServerMessage, Status>>;
    type TunnelStream = Pin<Box<dyn Stream<Item = Result<TunnelPiece, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (say, messages) = mpsc::channel(100);
        let connection = (request.into_inner(), say);
        self.connections.send(connection).await.unwrap();
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn tunnel(
        &self,
        request: Request<Streaming<TunnelPiece>>,
    ) -> Result<Response<Self::TunnelStream>, Status> {
        let (mut pieces, seen) = (request.into_inner(), self.tunnels.clone());
        tokio::spawn(async move {
            while let Some(Ok(piece)) = pieces.next().await {
                if seen.send(piece).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(tokio_stream::pending())))
    }
}

/// A server that sends the recorded messages of one version to an agent.
struct OldServer {
    messages: PathBuf,
    say: ToAgent,
    heard: Streaming<AgentMessage>,
    pieces: mpsc::Receiver<TunnelPiece>,
    agent: Agent,
    _directory: TempDir,
}

/// Connects an agent to a server of each recorded version.
async fn old_servers() -> Vec<OldServer> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent-proto/fixtures");
    let mut servers = Vec::new();
    for version in fixtures.read_dir().unwrap() {
        servers.push(OldServer::start(version.unwrap().path()).await);
    }
    assert!(!servers.is_empty());
    servers
}

impl OldServer {
    async fn start(messages: PathBuf) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("server.sock");
        let incoming = UnixListenerStream::new(UnixListener::bind(&socket).unwrap());
        let (connections, mut connected) = mpsc::channel(1);
        let (tunnels, pieces) = mpsc::channel(100);
        let service = AgentServiceServer::new(Accepting {
            connections,
            tunnels,
        });
        tokio::spawn(GrpcServer::builder().serve_with_incoming(service, incoming));
        let agent = Agent::start(&socket);
        let (heard, say) = within(connected.recv()).await.unwrap();
        let mut server = Self {
            messages,
            say,
            heard,
            pieces,
            agent,
            _directory: directory,
        };
        let registered = server.hear().await;
        assert!(matches!(registered, Payload::Register(_)), "{registered:?}");
        server.say("register_response", |_| {}).await;
        server
    }

    /// Sends a recorded message, changed for this machine. Returns the id of
    /// the request.
    async fn say(&self, kind: &str, change: impl FnOnce(&mut ServerPayload)) -> u64 {
        let bytes = std::fs::read(self.messages.join(format!("server-{kind}.bin")));
        let mut message = ServerMessage::decode(&bytes.unwrap()[..]).unwrap();
        change(message.payload.as_mut().unwrap());
        let request = message.request_id;
        self.say.send(Ok(message)).await.unwrap();
        request
    }

    async fn hear(&mut self) -> Payload {
        let message = within(self.heard.message()).await.unwrap().unwrap();
        message.payload.unwrap()
    }

    /// Waits for a message that `select` returns a value for.
    async fn hear_until<T>(&mut self, select: impl Fn(Payload) -> Option<T>) -> T {
        loop {
            if let Some(found) = select(self.hear().await) {
                return found;
            }
        }
    }

    /// Waits for the answer to a request. Returns the kind of the failure.
    async fn answer(&mut self, request: u64) -> Option<FailureKind> {
        self.hear_until(|payload| match payload {
            Payload::Answer(answer) if answer.request_id == request => {
                Some(answer.failure.map(|failure| failure.kind()))
            }
            _ => None,
        })
        .await
    }
}

/// Lets a command run in a directory that exists.
fn at_the_root(payload: &mut ServerPayload) {
    let ServerPayload::RunCommand(run) = payload else {
        panic!("{payload:?}");
    };
    run.cwd = "/".into();
}

#[tokio::test]
async fn a_command_of_an_old_server_runs_to_its_end() {
    for mut server in old_servers().await {
        let request = server.say("run_command", at_the_root).await;
        assert_eq!(server.answer(request).await, None);
        let request = server.say("command_input", |_| {}).await;
        let mut printed = Vec::new();
        let mut is_answered = false;
        let exit = loop {
            match server.hear().await {
                Payload::Answer(answer) => is_answered |= answer.request_id == request,
                Payload::CommandOutput(output) => match output.r#type() {
                    OutputType::Exit => break output.exit.unwrap(),
                    OutputType::Stdout => printed.extend_from_slice(&output.data),
                    _ => {}
                },
                _ => {}
            }
        };
        assert!(is_answered && exit.code == Some(0), "{exit:?}");
        // The window of the recorded reader holds all of it.
        let numbers: String = (1..=1000).map(|n| format!("{n}\n")).collect();
        let printed = String::from_utf8(printed).unwrap();
        assert_eq!(printed, format!("first\nsecond\n{numbers}"));
        let request = server.say("kill_command", |_| {}).await;
        assert_eq!(server.answer(request).await, Some(FailureKind::Ended));
        let request = server.say("subscribe", |_| {}).await;
        assert_eq!(server.answer(request).await, Some(FailureKind::Invalid));
        server.say("unsubscribe", |_| {}).await;
        server.say("acknowledge", |_| {}).await;
    }
}

#[tokio::test]
async fn a_terminal_of_an_old_server_can_be_used() {
    for mut server in old_servers().await {
        let request = server.say("create_pty", |_| {}).await;
        assert_eq!(server.answer(request).await, None);
        let request = server.say("resize_pty", |_| {}).await;
        assert_eq!(server.answer(request).await, None);
        let subscribe = |payload: &mut ServerPayload| {
            let ServerPayload::Subscribe(subscribe) = payload else {
                panic!("{payload:?}");
            };
            subscribe.process_id = "terminal-1".into();
            subscribe.offset = 0;
        };
        let request = server.say("subscribe", subscribe).await;
        assert_eq!(server.answer(request).await, None);
        server.say("pty_input", |_| {}).await;
        let mut printed = String::new();
        while !printed.contains("42") {
            let data = server.hear_until(|payload| match payload {
                Payload::PtyOutput(output) => match output.payload {
                    Some(pty_output::Payload::Data(data)) => Some(data),
                    _ => None,
                },
                _ => None,
            });
            printed += &String::from_utf8_lossy(&data.await);
        }
        server.say("kill_pty", |_| {}).await;
        server
            .hear_until(|payload| match payload {
                Payload::PtyOutput(output) => output.exit,
                _ => None,
            })
            .await;
    }
}

#[tokio::test]
async fn a_tunnel_of_an_old_server_is_opened_and_the_agent_shuts_down() {
    for mut server in old_servers().await {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let to_port = |payload: &mut ServerPayload| {
            let ServerPayload::OpenTunnel(open) = payload else {
                panic!("{payload:?}");
            };
            open.target = Some(Target::Port(port.into()));
        };
        let request = server.say("open_tunnel", to_port).await;
        let (mut socket, _) = within(listener.accept()).await.unwrap();
        assert_eq!(server.answer(request).await, None);
        socket.write_all(b"through").await.unwrap();
        drop(socket);
        let piece = within(server.pieces.recv()).await.unwrap();
        assert_eq!(piece.content, Some(Content::Data("through".into())));
        let piece = within(server.pieces.recv()).await.unwrap();
        assert_eq!(piece.content, Some(Content::End(true)));
        server.say("shutdown", |_| {}).await;
        let agent = std::cell::RefCell::new(server.agent);
        until("the agent ends", || agent.borrow_mut().has_ended()).await;
    }
}
