//! Every process in a sandbox can reach the server's socket, and an attacker
//! may control the agent. The messages of such an agent must cost little and
//! affect no other sandbox.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use elevo_agent_link::{AgentLink, AgentLinks, Authenticate, Command, Event, LinkError, Settings};
use elevo_agent_proto::v1::agent_message::Payload;
use elevo_agent_proto::v1::agent_service_client::AgentServiceClient;
use elevo_agent_proto::v1::server_message::Payload as ServerPayload;
use elevo_agent_proto::v1::{
    AgentMessage, Answer, CommandOutput, Gap, OutputType, Process, RegisterRequest, ServerMessage,
};
use elevo_testkit::wait::until_async;
use futures::Stream;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};

#[path = "hostile/tunnels.rs"]
mod tunnels;

const WINDOW: u32 = 10_000;

/// The token of a sandbox is its id reversed.
struct Backwards;

#[async_trait::async_trait]
impl Authenticate for Backwards {
    async fn is_right(&self, sandbox: &str, token: &str) -> bool {
        sandbox.chars().rev().eq(token.chars())
    }
}

async fn serve() -> (AgentLinks, SocketAddr) {
    let settings = Settings {
        window: WINDOW,
        ..Settings::default()
    };
    let links = AgentLinks::new(Arc::new(Backwards), settings);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = links.clone();
    tokio::spawn(async move { serving.serve_tcp(listener, std::future::pending()).await });
    (links, address)
}

/// An agent that sends the messages of the test.
struct Puppet {
    client: AgentServiceClient<Channel>,
    say: mpsc::Sender<AgentMessage>,
    heard: Streaming<ServerMessage>,
}

fn stream(mut messages: mpsc::Receiver<AgentMessage>) -> impl Stream<Item = AgentMessage> + Send {
    futures::stream::poll_fn(move |context| messages.poll_recv(context))
}

impl Puppet {
    async fn connect(address: SocketAddr, sandbox: &str, token: &str) -> Result<Self, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let client = AgentServiceClient::new(endpoint.connect().await.unwrap());
        Self::greet(client, sandbox, token).await
    }

    /// Sends a token on an existing connection.
    async fn greet(
        mut client: AgentServiceClient<Channel>,
        sandbox: &str,
        token: &str,
    ) -> Result<Self, Status> {
        let (say, messages) = mpsc::channel(2000);
        let mut request = Request::new(stream(messages));
        let metadata = request.metadata_mut();
        metadata.insert("x-sandbox-id", sandbox.parse().unwrap());
        metadata.insert("authorization", format!("Bearer {token}").parse().unwrap());
        let heard = client.connect(request).await?.into_inner();
        Ok(Self { client, say, heard })
    }

    async fn say(&self, payload: Payload) {
        let message = AgentMessage {
            sandbox_id: "abc".into(),
            payload: Some(payload),
        };
        self.say.send(message).await.unwrap();
    }

    async fn register(&self, sandbox: &str, processes: Vec<Process>) {
        self.say(Payload::Register(RegisterRequest {
            sandbox_id: sandbox.into(),
            processes,
            ..RegisterRequest::default()
        }))
        .await;
    }

    /// Waits until the server has closed the connection.
    async fn is_dropped(&mut self) -> bool {
        while let Ok(Some(_)) = within(self.heard.message()).await {}
        true
    }

    /// Waits for a request to run a command. Returns the id of the request and
    /// the id of the reader that the request starts.
    async fn hear_reader(&mut self) -> (u64, u64) {
        loop {
            let message = within(self.heard.message()).await.unwrap().unwrap();
            match message.payload {
                Some(ServerPayload::RunCommand(run)) => {
                    let reader = run.subscribe.unwrap().subscription_id;
                    return (message.request_id, reader);
                }
                Some(ServerPayload::RegisterResponse(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, future).await.unwrap()
}

/// Returns a registered puppet, the server's link to it, the output of a
/// command, and the id of the reader of this output.
async fn reading() -> (Puppet, AgentLink, elevo_agent_link::Output, u64) {
    let (links, address) = serve().await;
    let mut puppet = Puppet::connect(address, "abc", "cba").await.unwrap();
    puppet.register("abc", Vec::new()).await;
    let link = within(links.connected("abc")).await;
    let command = Command {
        id: "c".into(),
        read: true,
        ..Command::default()
    };
    let running = link.clone();
    let run = tokio::spawn(async move { running.run(command).await });
    let (request_id, reader) = puppet.hear_reader().await;
    let answer = Answer {
        request_id,
        ..Answer::default()
    };
    puppet.say(Payload::Answer(answer)).await;
    let output = within(run).await.unwrap().unwrap().unwrap();
    (puppet, link, output, reader)
}

fn output(reader: u64, offset: u64, data: Vec<u8>) -> Payload {
    Payload::CommandOutput(CommandOutput {
        r#type: OutputType::Stdout.into(),
        data: Bytes::from(data),
        subscription_id: reader,
        offset,
        ..CommandOutput::default()
    })
}

#[tokio::test]
async fn a_token_of_another_sandbox_is_wrong() {
    let (links, address) = serve().await;
    for (sandbox, token) in [("abc", "fed"), ("abc", ""), ("def", "cba"), ("", "")] {
        let refused = Puppet::connect(address, sandbox, token).await;
        assert_eq!(refused.err().unwrap().code(), Code::Unauthenticated);
    }
    assert_eq!(links.count(), 0);
}

#[tokio::test]
async fn a_connection_can_send_one_token() {
    let (links, address) = serve().await;
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let client = AgentServiceClient::new(endpoint.connect().await.unwrap());
    let wrong = Puppet::greet(client.clone(), "abc", "abc").await;
    assert_eq!(wrong.err().unwrap().code(), Code::Unauthenticated);
    let second = Puppet::greet(client, "abc", "cba").await;
    assert_eq!(second.err().unwrap().code(), Code::ResourceExhausted);
    assert_eq!(links.count(), 0);
    let puppet = Puppet::connect(address, "abc", "cba").await.unwrap();
    let second = Puppet::greet(puppet.client.clone(), "abc", "cba").await;
    assert_eq!(second.err().unwrap().code(), Code::ResourceExhausted);
    puppet.register("abc", Vec::new()).await;
    within(links.connected("abc")).await;
}

#[tokio::test]
async fn registering_for_another_sandbox_closes_the_connection() {
    let (links, address) = serve().await;
    let mut puppet = Puppet::connect(address, "abc", "cba").await.unwrap();
    puppet.register("def", Vec::new()).await;
    assert!(puppet.is_dropped().await);
    assert_eq!(links.count(), 0);
}

#[tokio::test]
async fn too_many_processes_close_the_connection() {
    let (links, address) = serve().await;
    let mut puppet = Puppet::connect(address, "abc", "cba").await.unwrap();
    let process = |index| Process {
        process_id: format!("p{index}"),
        ..Process::default()
    };
    puppet
        .register("abc", (0..1000).map(process).collect())
        .await;
    let link = within(links.connected("abc")).await;
    assert_eq!(link.processes().len(), 1000);
    for index in 1000..1100 {
        puppet.say(Payload::Process(process(index))).await;
    }
    assert!(puppet.is_dropped().await);
    assert!(link.processes().len() <= 1024);
}

#[tokio::test]
async fn a_reader_gets_valid_output() {
    let (puppet, link, mut reader, id) = reading().await;
    puppet.say(output(id, 0, vec![1; 100])).await;
    let gap = Gap {
        subscription_id: id,
        from: 100,
        to: 200,
        ..Gap::default()
    };
    puppet.say(Payload::Gap(gap)).await;
    puppet.say(output(id, 200, vec![2; 5])).await;
    // Output for an unknown reader is ignored.
    puppet.say(output(id + 7, 77, vec![3; 100_000])).await;
    let first = within(reader.next()).await.unwrap();
    assert!(matches!(first, Event::Data { offset: 0, .. }));
    let second = within(reader.next()).await.unwrap();
    assert_eq!(second, Event::Gap { from: 100, to: 200 });
    let third = within(reader.next()).await.unwrap();
    assert!(matches!(third, Event::Data { offset: 200, .. }));
    assert_eq!(reader.offset(), 205);
    assert!(link.processes().is_empty());
}

#[tokio::test]
async fn output_beyond_the_window_closes_the_connection() {
    let (mut puppet, link, mut reader, id) = reading().await;
    puppet.say(output(id, 0, vec![0; 9_000])).await;
    puppet.say(output(id, 9_000, vec![0; 9_000])).await;
    assert!(puppet.is_dropped().await);
    // Earlier output is still there.
    assert!(within(reader.next()).await.is_ok());
    assert_eq!(within(reader.next()).await, Err(LinkError::Disconnected));
    let late = within(link.attach("c", 0)).await;
    assert_eq!(late.unwrap_err(), LinkError::Disconnected);
}

#[tokio::test]
async fn too_many_pieces_close_the_connection() {
    let (mut puppet, _link, _reader, id) = reading().await;
    for offset in 0..300 {
        puppet.say(output(id, offset, vec![0])).await;
    }
    assert!(puppet.is_dropped().await);
}

#[tokio::test]
async fn output_out_of_order_closes_the_connection() {
    let (mut puppet, _link, mut reader, id) = reading().await;
    puppet.say(output(id, 5, vec![0; 10])).await;
    assert!(puppet.is_dropped().await);
    assert_eq!(within(reader.next()).await, Err(LinkError::Disconnected));
}

#[tokio::test]
async fn a_malformed_message_closes_only_its_own_connection() {
    let (links, address) = serve().await;
    let good = Puppet::connect(address, "abc", "cba").await.unwrap();
    good.register("abc", Vec::new()).await;
    within(links.connected("abc")).await;
    let mut bad = Puppet::connect(address, "xyz", "zyx").await.unwrap();
    bad.register("xyz", Vec::new()).await;
    within(links.connected("xyz")).await;
    // Larger than the maximum of a message.
    bad.say(output(1, 0, vec![0; 5_000_000])).await;
    assert!(bad.is_dropped().await);
    assert!(links.get("abc").is_some());
}

#[tokio::test]
async fn a_connection_without_a_token_is_closed() {
    let (_links, address) = serve().await;
    let closed = tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .unwrap();
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
        let limit = Duration::from_secs(15);
        stream.set_read_timeout(Some(limit)).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).is_ok()
    });
    assert!(within(closed).await.unwrap());
}

#[tokio::test]
async fn replaces_a_stale_socket_and_no_other_file() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("agent.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let links = AgentLinks::new(Arc::new(Backwards), Settings::default());
    let (serving, path) = (links.clone(), socket.clone());
    let server =
        tokio::spawn(async move { serving.serve_unix(&path, std::future::pending()).await });
    until_async("the server listens", async || {
        tokio::net::UnixStream::connect(&socket).await.ok()
    })
    .await;
    let taken = within(links.serve_unix(&socket, std::future::pending())).await;
    assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let no_socket = within(links.serve_unix(&file, std::future::pending())).await;
    assert!(no_socket.is_err() && file.exists());
    server.abort();
}
