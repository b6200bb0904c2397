//! A sandbox keeps its agent when the server is upgraded. So the server's end
//! must understand the recorded messages of every earlier agent
//! (`crates/agent-proto/fixtures`). The ids of requests, readers and tunnels are
//! those of this conversation; all else is as the agent sent it.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::{
    AgentLink, AgentLinks, Authenticate, Command, Event, LinkError, Output, ProcessState, Settings,
    Stream, Terminal,
};
use elevo_agent_proto::Message;
use elevo_agent_proto::v1::agent_message::Payload;
use elevo_agent_proto::v1::agent_service_client::AgentServiceClient;
use elevo_agent_proto::v1::server_message::Payload as ServerPayload;
use elevo_agent_proto::v1::tunnel_piece::Content;
use elevo_agent_proto::v1::{AgentMessage, ServerMessage, TunnelPiece, pty_output};
use elevo_testkit::wait::until_async;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

/// The sandbox of the recorded messages.
const SANDBOX: &str = "sbx-test";

struct AnyToken;

#[async_trait::async_trait]
impl Authenticate for AnyToken {
    async fn is_right(&self, sandbox: &str, _: &str) -> bool {
        sandbox == SANDBOX
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, future).await.unwrap()
}

/// An agent that sends the recorded messages of one version.
struct OldAgent {
    messages: PathBuf,
    client: AgentServiceClient<Channel>,
    say: mpsc::Sender<AgentMessage>,
    heard: Streaming<ServerMessage>,
}

/// Connects an agent of each recorded version.
async fn old_agents() -> Vec<(OldAgent, AgentLink)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent-proto/fixtures");
    let mut agents = Vec::new();
    for version in fixtures.read_dir().unwrap() {
        agents.push(OldAgent::connect(version.unwrap().path()).await);
    }
    assert!(!agents.is_empty());
    agents
}

impl OldAgent {
    async fn connect(messages: PathBuf) -> (Self, AgentLink) {
        let links = AgentLinks::new(Arc::new(AnyToken), Settings::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = links.clone();
        tokio::spawn(async move { serving.serve_tcp(listener, std::future::pending()).await });
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let mut client = AgentServiceClient::new(endpoint.connect().await.unwrap());
        let (say, mut sent) = mpsc::channel(100);
        let stream = futures::stream::poll_fn(move |context| sent.poll_recv(context));
        let mut request = Request::new(stream);
        let metadata = request.metadata_mut();
        metadata.insert("x-sandbox-id", SANDBOX.parse().unwrap());
        metadata.insert("authorization", "Bearer token".parse().unwrap());
        let heard = within(client.connect(request)).await.unwrap().into_inner();
        let agent = Self {
            messages,
            client,
            say,
            heard,
        };
        agent.say(agent.recorded("register")).await;
        let link = within(links.connected(SANDBOX)).await;
        (agent, link)
    }

    fn read<M: Message + Default>(&self, name: &str) -> M {
        let bytes = std::fs::read(self.messages.join(format!("{name}.bin")));
        M::decode(&bytes.unwrap()[..]).unwrap()
    }

    /// Returns the content of a recorded message.
    fn recorded(&self, kind: &str) -> Payload {
        let message: AgentMessage = self.read(&format!("agent-{kind}"));
        assert_eq!(message.sandbox_id, SANDBOX);
        message.payload.unwrap()
    }

    async fn say(&self, payload: Payload) {
        let message = AgentMessage {
            sandbox_id: SANDBOX.into(),
            payload: Some(payload),
        };
        self.say.send(message).await.unwrap();
    }

    /// Sends output to a reader.
    async fn say_to(&self, reader: u64, kind: &str) {
        let mut payload = self.recorded(kind);
        match &mut payload {
            Payload::CommandOutput(output) => output.subscription_id = reader,
            Payload::PtyOutput(output) => output.subscription_id = reader,
            Payload::Gap(gap) => gap.subscription_id = reader,
            other => panic!("{other:?}"),
        }
        self.say(payload).await;
    }

    /// Sends a recorded answer to a request.
    async fn answer(&self, request_id: u64, kind: &str) {
        let Payload::Answer(mut answer) = self.recorded(kind) else {
            panic!("{kind} is not an answer");
        };
        answer.request_id = request_id;
        self.say(Payload::Answer(answer)).await;
    }

    /// Waits for the next request.
    async fn hear(&mut self) -> (u64, ServerPayload) {
        loop {
            let message = within(self.heard.message()).await.unwrap().unwrap();
            if message.request_id != 0 {
                return (message.request_id, message.payload.unwrap());
            }
        }
    }

    /// Waits for a request that starts a reader, and answers it. Returns the id
    /// of the reader.
    async fn start_reader(&mut self) -> u64 {
        let (request, payload) = self.hear().await;
        let subscribe = match payload {
            ServerPayload::RunCommand(run) => run.subscribe.unwrap(),
            ServerPayload::Subscribe(subscribe) => subscribe,
            other => panic!("{other:?}"),
        };
        self.answer(request, "answer").await;
        subscribe.subscription_id
    }
}

async fn next(output: &mut Output) -> Event {
    within(output.next()).await.unwrap()
}

/// Attaches to the output of a process. Returns the id of the reader as well.
async fn attach(agent: &mut OldAgent, link: &AgentLink, process: &str) -> (Output, u64) {
    let (link, process) = (link.clone(), process.to_owned());
    let attaching = tokio::spawn(async move { link.attach(&process, 0).await });
    let reader = agent.start_reader().await;
    (within(attaching).await.unwrap().unwrap(), reader)
}

#[tokio::test]
async fn commands_of_an_old_agent_are_read_to_their_end() {
    for (mut agent, link) in old_agents().await {
        assert!(link.version().starts_with("0."), "{}", link.version());
        let command = Command {
            id: "command-1".into(),
            read: true,
            ..Command::default()
        };
        let running = link.clone();
        let run = tokio::spawn(async move { running.run(command).await });
        let reader = agent.start_reader().await;
        let mut output = within(run).await.unwrap().unwrap().unwrap();
        agent.say(agent.recorded("process")).await;
        agent.say_to(reader, "command_output_stdout").await;
        let Payload::CommandOutput(recorded) = agent.recorded("command_output_stdout") else {
            panic!("not output");
        };
        let expected = Event::Data {
            stream: Stream::Stdout,
            offset: 0,
            data: recorded.data,
        };
        assert_eq!(next(&mut output).await, expected);
        let process = link.process("command-1").unwrap();
        assert_eq!(process.state, ProcessState::Running);
        agent.say(agent.recorded("process_exited")).await;
        agent.say_to(reader, "command_output_exit").await;
        let Event::Exit(exit) = next(&mut output).await else {
            panic!("the command has not ended");
        };
        assert_eq!(exit.code, Some(0));
        let ended = link.process("command-1").unwrap().exit.unwrap();
        assert_eq!(ended.code, Some(0));
    }
}

#[tokio::test]
async fn terminals_gaps_and_heartbeats_of_an_old_agent_are_read() {
    for (mut agent, link) in old_agents().await {
        let terminal = Terminal {
            id: "terminal-1".into(),
            cols: 80,
            rows: 24,
            ..Terminal::default()
        };
        let opening = link.clone();
        let opened = tokio::spawn(async move { opening.open_terminal(terminal).await });
        let (request, _) = agent.hear().await;
        agent.answer(request, "answer").await;
        within(opened).await.unwrap().unwrap();
        let (mut output, reader) = attach(&mut agent, &link, "terminal-1").await;
        let Payload::PtyOutput(recorded) = agent.recorded("pty_output_data") else {
            panic!("not output");
        };
        agent.say_to(reader, "pty_output_data").await;
        let Event::Data { data, .. } = next(&mut output).await else {
            panic!("no data");
        };
        assert_eq!(recorded.payload, Some(pty_output::Payload::Data(data)));
        agent.say_to(reader, "pty_output_exit_code").await;
        assert!(matches!(next(&mut output).await, Event::Exit(_)));

        let (mut output, reader) = attach(&mut agent, &link, "command-3").await;
        agent.say_to(reader, "gap").await;
        assert!(matches!(
            next(&mut output).await,
            Event::Gap { from: 0, .. }
        ));
        agent.say(agent.recorded("heartbeat")).await;
        let usage = || async { link.usage() };
        assert!(until_async("the heartbeat arrives", usage).await.at_ms > 0);
    }
}

#[tokio::test]
async fn failures_of_an_old_agent_keep_their_meaning() {
    for (mut agent, link) in old_agents().await {
        let mut fail = async |kind: &str| {
            let asking = link.clone();
            let asked = tokio::spawn(async move { asking.signal("command-1", 15).await });
            let (request, _) = agent.hear().await;
            agent.answer(request, kind).await;
            within(asked).await.unwrap().unwrap_err()
        };
        let failure = fail("answer_no_such_process").await;
        assert_eq!(failure, LinkError::NoSuchProcess);
        assert_eq!(fail("answer_ended").await, LinkError::Ended);
        assert_eq!(fail("answer_not_open").await, LinkError::NotOpen);
        let failure = fail("answer_cannot_start").await;
        assert!(
            matches!(failure, LinkError::CannotStart { .. }),
            "{failure:?}"
        );
        let failure = fail("answer_too_many").await;
        assert!(matches!(failure, LinkError::TooMany { .. }), "{failure:?}");
        let failure = fail("answer_invalid").await;
        assert!(matches!(failure, LinkError::Invalid(_)), "{failure:?}");
    }
}

#[tokio::test]
async fn tunnels_of_an_old_agent_carry_data() {
    for (mut agent, link) in old_agents().await {
        let opening = tokio::spawn(async move { link.open_port(80).await });
        let (request, payload) = agent.hear().await;
        let ServerPayload::OpenTunnel(open) = payload else {
            panic!("{payload:?}");
        };
        agent.answer(request, "answer").await;
        let data: TunnelPiece = agent.read("piece-data");
        let Some(Content::Data(sent)) = data.content.clone() else {
            panic!("no data");
        };
        let pieces = vec![data, agent.read("piece-end")];
        let mut request = Request::new(futures::stream::iter(pieces));
        let metadata = request.metadata_mut();
        metadata.insert("x-sandbox-id", SANDBOX.parse().unwrap());
        let id = open.tunnel_id.to_string();
        metadata.insert("x-tunnel-id", id.parse().unwrap());
        let _inbound = within(agent.client.tunnel(request)).await.unwrap();
        let mut stream = within(opening).await.unwrap().unwrap();
        let mut read = Vec::new();
        within(stream.read_to_end(&mut read)).await.unwrap();
        assert_eq!(read, sent);
    }
}
