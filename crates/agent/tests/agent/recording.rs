//! Exchanges every message of the contract between a real agent and a real
//! server. If `ELEVO_RECORD` names a directory, the messages are written there:
//! this is how `crates/agent-proto/fixtures/VERSION` is created.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use elevo_agent_link::{Event, FileCondition, PutFile, Settings, Terminal};
use elevo_agent_proto::Message;
use elevo_agent_proto::v1::agent_service_client::AgentServiceClient;
use elevo_agent_proto::v1::agent_service_server::{AgentService, AgentServiceServer};
use elevo_agent_proto::v1::{
    AgentMessage, ServerMessage, TunnelPiece, agent_message, open_tunnel, server_message,
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Channel, Endpoint, Server as GrpcServer};
use tonic::{Request, Response, Status, Streaming};

use crate::support::{Agent, Pair, Server, bytes, finish, read_until, until, within};

/// The first message of each kind: its bytes and its meaning.
type Seen = Arc<Mutex<BTreeMap<String, (Vec<u8>, String)>>>;

/// Forwards all messages.
struct Proxy {
    server: PathBuf,
    seen: Seen,
    /// The proxy's connection to the server, which tunnels must use as well.
    client: Mutex<Option<AgentServiceClient<Channel>>>,
}

#[tonic::async_trait]
impl AgentService for Proxy {
    type ConnectStream = ReceiverStream<Result<ServerMessage, Status>>;
    type TunnelStream = Pin<Box<dyn Stream<Item = Result<TunnelPiece, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let path = self.server.clone();
        let dial = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://server.invalid");
        let channel = endpoint.connect_with_connector(dial).await;
        let mut client =
            AgentServiceClient::new(channel.map_err(|e| Status::from_error(e.into()))?);
        *self.client.lock().unwrap() = Some(client.clone());
        let (metadata, _, mut from_agent) = request.into_parts();
        let (to_server, messages) = mpsc::channel(1);
        let seen = Arc::clone(&self.seen);
        tokio::spawn(async move {
            while let Some(Ok(message)) = from_agent.next().await {
                see(&seen, format!("agent-{}", agent_kind(&message)), &message);
                if to_server.send(message).await.is_err() {
                    return;
                }
            }
        });
        let mut request = Request::new(ReceiverStream::new(messages));
        *request.metadata_mut() = metadata;
        let mut from_server = client.connect(request).await?.into_inner();
        let (to_agent, messages) = mpsc::channel(1);
        let seen = Arc::clone(&self.seen);
        tokio::spawn(async move {
            while let Some(Ok(message)) = from_server.next().await {
                see(&seen, format!("server-{}", server_kind(&message)), &message);
                if to_agent.send(Ok(message)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn tunnel(
        &self,
        request: Request<Streaming<TunnelPiece>>,
    ) -> Result<Response<Self::TunnelStream>, Status> {
        let mut client = self.client.lock().unwrap().clone().unwrap();
        let (metadata, _, from_agent) = request.into_parts();
        let seen = Arc::clone(&self.seen);
        let mut request = Request::new(from_agent.map_while(move |piece| {
            let piece = piece.ok()?;
            see(&seen, format!("piece-{}", piece_kind(&piece)), &piece);
            Some(piece)
        }));
        *request.metadata_mut() = metadata;
        let from_server = client.tunnel(request).await?.into_inner();
        let seen = Arc::clone(&self.seen);
        Ok(Response::new(Box::pin(StreamExt::map(
            from_server,
            move |piece| {
                if let Ok(piece) = &piece {
                    see(&seen, format!("piece-{}", piece_kind(piece)), piece);
                }
                piece
            },
        ))))
    }
}

fn see<M: Message + std::fmt::Debug>(seen: &Seen, kind: String, message: &M) {
    let means = || (message.encode_to_vec(), format!("{message:#?}\n"));
    seen.lock().unwrap().entry(kind).or_insert_with(means);
}

/// Converts the name of a variant, such as `RunCommand`, to `run_command`.
fn snake(debug: &str) -> String {
    let name = debug.split('(').next().unwrap();
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn agent_kind(message: &AgentMessage) -> String {
    let payload = message.payload.as_ref().unwrap();
    let kind = snake(&format!("{payload:?}"));
    match payload {
        agent_message::Payload::CommandOutput(output) => {
            format!("{kind}_{}", snake(&format!("{:?}", output.r#type())))
        }
        agent_message::Payload::PtyOutput(output) => {
            let inner = output.payload.as_ref().unwrap();
            format!("{kind}_{}", snake(&format!("{inner:?}")))
        }
        agent_message::Payload::Answer(answer) => match &answer.failure {
            None => kind,
            Some(failure) => format!("{kind}_{}", snake(&format!("{:?}", failure.kind()))),
        },
        agent_message::Payload::Process(process) if process.exit.is_some() => kind + "_exited",
        _ => kind,
    }
}

fn server_kind(message: &ServerMessage) -> String {
    let payload: &server_message::Payload = message.payload.as_ref().unwrap();
    let kind = snake(&format!("{payload:?}"));
    match payload {
        server_message::Payload::OpenTunnel(open) => match &open.target {
            Some(open_tunnel::Target::File(file)) => {
                let operation = file.operation.as_ref().unwrap();
                format!("{kind}_{}", snake(&format!("{operation:?}")))
            }
            _ => kind,
        },
        _ => kind,
    }
}

fn piece_kind(piece: &TunnelPiece) -> String {
    let content = piece.content.as_ref().unwrap();
    snake(&format!("{content:?}"))
}

/// Starts a server and an agent that are connected through a proxy, which
/// records their messages in `seen`.
async fn recorded(seen: &Seen) -> Pair {
    let directory = tempfile::tempdir().unwrap();
    let behind = directory.path().join("server.sock");
    let settings = Settings {
        window: 4096,
        terminals: 1,
        ..Settings::default()
    };
    let server = Server::with(&behind, settings);
    let socket = directory.path().join("agent.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let proxy = AgentServiceServer::new(Proxy {
        server: behind,
        seen: Arc::clone(seen),
        client: Mutex::default(),
    });
    let incoming = UnixListenerStream::new(listener);
    tokio::spawn(GrpcServer::builder().serve_with_incoming(proxy, incoming));
    let agent = Agent::start(&socket);
    let link = server.link().await;
    Pair {
        link,
        agent,
        server,
        directory,
    }
}

/// Runs commands with input, output and failures.
async fn use_commands(pair: &Pair) {
    let mut command = pair.command("command-1", "cat; echo oops >&2; seq 1000");
    command.envs.insert("LANG".into(), "C".into());
    command.stdin = bytes("first\n");
    command.open_stdin = true;
    command.timeout = Some(Duration::from_secs(60));
    let mut output = pair.start_command(command).await;
    let link = &pair.link;
    within(link.input("command-1", bytes("second\n"), true))
        .await
        .unwrap();
    finish(&mut output).await;
    assert!(within(link.signal("command-1", 15)).await.is_err());
    assert!(within(link.signal("nobody", 15)).await.is_err());
    let mut command = pair.command("command-2", "true");
    command.cwd = Some("/nowhere".into());
    assert!(within(link.run(command)).await.is_err());
    assert!(within(link.attach("command-1", 1 << 40)).await.is_err());
    let mut command = pair.command("command-3", "head -c 3000000 /dev/zero");
    command.background = true;
    command.read = false;
    within(link.run(command)).await.unwrap();
    until("it has ended", || {
        let process = link.process("command-3");
        process.is_some_and(|process| process.exit.is_some())
    })
    .await;
    let mut output = within(link.attach("command-3", 0)).await.unwrap();
    let first = within(output.next()).await.unwrap();
    assert!(matches!(first, Event::Gap { .. }));
}

async fn use_terminals(pair: &Pair) {
    let terminal = |id: &str| Terminal {
        id: id.into(),
        cols: 80,
        rows: 24,
        shell: Some("/bin/sh".into()),
        cwd: Some("/".into()),
        ..Terminal::default()
    };
    let link = &pair.link;
    within(link.open_terminal(terminal("terminal-1")))
        .await
        .unwrap();
    assert!(
        within(link.open_terminal(terminal("terminal-2")))
            .await
            .is_err()
    );
    let mut output = within(link.attach("terminal-1", 0)).await.unwrap();
    within(link.resize("terminal-1", 100, 30)).await.unwrap();
    let typed = bytes("echo $((6*7))\r");
    within(link.input("terminal-1", typed, false))
        .await
        .unwrap();
    read_until(&mut output, "42").await;
    within(link.close_terminal("terminal-1")).await.unwrap();
    while !matches!(within(output.next()).await.unwrap(), Event::Exit(_)) {}
}

async fn use_tunnels(pair: &Pair) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut stream = within(pair.link.open_port(port)).await.unwrap();
    let (mut socket, _) = within(listener.accept()).await.unwrap();
    socket.write_all(b"from a port").await.unwrap();
    drop((socket, listener));
    let mut read = String::new();
    within(stream.read_to_string(&mut read)).await.unwrap();
    assert!(within(pair.link.open_port(port)).await.is_err());
}

async fn use_files(pair: &Pair) {
    let link = &pair.link;
    let directory = pair.directory.path().join("directory");
    let [file, moved] = ["file", "moved"].map(|name| directory.join(name));
    let path = |path: &Path| path.as_os_str().as_bytes().to_vec();
    within(link.make_directory(&path(&directory), Some(0o750), true))
        .await
        .unwrap();
    let mut upload = within(link.put_file(&path(&file), PutFile::default()))
        .await
        .unwrap();
    within(upload.write(b"content")).await.unwrap();
    within(upload.finish()).await.unwrap();
    let opened = within(link.open_file(&path(&file))).await.unwrap();
    let mut content = opened.read(1, 3);
    let read = within(content.next_data()).await.unwrap();
    assert_eq!(read.as_deref(), Some(b"ont".as_slice()));
    let listed = within(link.list_files(&path(&directory), Vec::new(), 10)).await;
    assert_eq!(listed.unwrap().entries.len(), 1);
    within(link.rename_file(&path(&file), &path(&moved), false))
        .await
        .unwrap();
    within(link.remove_file(&path(&moved), false, FileCondition::default()))
        .await
        .unwrap();
}

const KINDS: [&str; 41] = [
    "agent-answer",
    "agent-answer_cannot_start",
    "agent-answer_ended",
    "agent-answer_invalid",
    "agent-answer_no_such_process",
    "agent-answer_not_open",
    "agent-answer_too_many",
    "agent-command_output_exit",
    "agent-command_output_stderr",
    "agent-command_output_stdout",
    "agent-gap",
    "agent-heartbeat",
    "agent-process",
    "agent-process_exited",
    "agent-pty_output_data",
    "agent-pty_output_exit_code",
    "agent-register",
    "piece-data",
    "piece-end",
    "piece-entries",
    "piece-file",
    "piece-range",
    "server-acknowledge",
    "server-command_input",
    "server-create_pty",
    "server-kill_command",
    "server-kill_pty",
    "server-open_tunnel",
    "server-open_tunnel_list",
    "server-open_tunnel_make_directory",
    "server-open_tunnel_open",
    "server-open_tunnel_put",
    "server-open_tunnel_remove",
    "server-open_tunnel_rename",
    "server-pty_input",
    "server-register_response",
    "server-resize_pty",
    "server-run_command",
    "server-shutdown",
    "server-subscribe",
    "server-unsubscribe",
];

#[tokio::test]
async fn every_message_of_the_contract_is_used() {
    let seen = Seen::default();
    let pair = recorded(&seen).await;
    use_commands(&pair).await;
    use_terminals(&pair).await;
    use_tunnels(&pair).await;
    use_files(&pair).await;
    within(pair.link.shut_down(Duration::from_secs(1)))
        .await
        .unwrap();
    let kinds: Vec<_> = seen.lock().unwrap().keys().cloned().collect();
    assert_eq!(kinds, KINDS);
    if let Some(directory) = std::env::var_os("ELEVO_RECORD") {
        record(&seen, Path::new(&directory));
    }
}

fn record(seen: &Seen, directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    for (kind, (encoded, meaning)) in &*seen.lock().unwrap() {
        std::fs::write(directory.join(format!("{kind}.bin")), encoded).unwrap();
        std::fs::write(directory.join(format!("{kind}.txt")), meaning).unwrap();
    }
}
