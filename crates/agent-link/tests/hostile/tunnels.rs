//! An agent opens tunnels that the server does not expect, or sends data that a
//! tunnel does not allow.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};

use elevo_agent_link::TunnelStream;
use elevo_agent_proto::v1::{Failure, FailureKind, TunnelPiece};
use elevo_agent_proto::{MAX_TUNNELS, STREAM_WINDOW, data_piece, end_piece};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use super::*;

type Pieces = Box<dyn Stream<Item = TunnelPiece> + Send + Unpin>;

fn no_pieces() -> Pieces {
    Box::new(futures::stream::pending())
}

/// Returns pieces, after which the direction stays open.
fn pieces(pieces: Vec<TunnelPiece>) -> Pieces {
    let open = futures::stream::pending();
    Box::new(futures::StreamExt::chain(
        futures::stream::iter(pieces),
        open,
    ))
}

fn data(data: &[u8]) -> TunnelPiece {
    data_piece(Bytes::copy_from_slice(data))
}

impl Puppet {
    /// Opens the stream of a tunnel.
    async fn tunnel(
        &self,
        sandbox: &str,
        id: &str,
        pieces: Pieces,
    ) -> Result<Streaming<TunnelPiece>, Status> {
        let mut request = Request::new(pieces);
        let metadata = request.metadata_mut();
        metadata.insert("x-sandbox-id", sandbox.parse().unwrap());
        metadata.insert("x-tunnel-id", id.parse().unwrap());
        let response = within(self.client.clone().tunnel(request)).await?;
        Ok(response.into_inner())
    }

    /// Waits for a request to open a tunnel. Returns the ids of the request and
    /// of the tunnel.
    async fn hear_tunnel(&mut self) -> (u64, String) {
        loop {
            let message = within(self.heard.message()).await.unwrap().unwrap();
            if let Some(ServerPayload::OpenTunnel(open)) = message.payload {
                return (message.request_id, open.tunnel_id.to_string());
            }
        }
    }

    async fn answer(&self, request_id: u64, failure: Option<FailureKind>) {
        let failure = failure.map(|kind| Failure {
            kind: kind.into(),
            ..Failure::default()
        });
        let answer = Answer {
            request_id,
            failure,
            ..Answer::default()
        };
        self.say(Payload::Answer(answer)).await;
    }
}

async fn connected() -> (AgentLinks, SocketAddr, Puppet, AgentLink) {
    let (links, address) = serve().await;
    let puppet = Puppet::connect(address, "abc", "cba").await.unwrap();
    puppet.register("abc", Vec::new()).await;
    let link = within(links.connected("abc")).await;
    (links, address, puppet, link)
}

fn open(link: &AgentLink) -> JoinHandle<Result<TunnelStream, LinkError>> {
    let link = link.clone();
    tokio::spawn(async move { link.open_port(80).await })
}

/// Returns a tunnel whose agent sends these pieces.
async fn tunnel_of(
    puppet: &mut Puppet,
    link: &AgentLink,
    pieces: Pieces,
) -> (TunnelStream, Streaming<TunnelPiece>) {
    let opening = open(link);
    let (request, id) = puppet.hear_tunnel().await;
    puppet.answer(request, None).await;
    let inbound = puppet.tunnel("abc", &id, pieces).await.unwrap();
    (within(opening).await.unwrap().unwrap(), inbound)
}

async fn rejected(puppet: &Puppet, sandbox: &str, id: &str) {
    let rejected = puppet.tunnel(sandbox, id, no_pieces()).await;
    assert_eq!(rejected.unwrap_err().code(), Code::NotFound, "{id}");
}

/// Fails if the connection of the agent does not work.
async fn works(puppet: &mut Puppet, link: &AgentLink) {
    let pieces = pieces(vec![data(b"works"), end_piece()]);
    let (mut stream, _inbound) = tunnel_of(puppet, link, pieces).await;
    let mut read = String::new();
    within(stream.read_to_string(&mut read)).await.unwrap();
    assert_eq!(read, "works");
}

#[tokio::test]
async fn a_tunnel_that_was_not_requested_is_rejected() {
    let (_links, _, mut puppet, link) = connected().await;
    for id in ["0", "1", "", "x", "-1", "18446744073709551616"] {
        rejected(&puppet, "abc", id).await;
    }
    // More than a connection has streams.
    for id in 0..1000 {
        rejected(&puppet, "abc", &id.to_string()).await;
    }
    works(&mut puppet, &link).await;
}

#[tokio::test]
async fn a_tunnel_is_opened_once() {
    let (_links, _, mut puppet, link) = connected().await;
    let opening = open(&link);
    let (request, id) = puppet.hear_tunnel().await;
    puppet.answer(request, None).await;
    let first = pieces(vec![data(b"first"), end_piece()]);
    let _inbound = puppet.tunnel("abc", &id, first).await.unwrap();
    let mut stream = within(opening).await.unwrap().unwrap();
    rejected(&puppet, "abc", &id).await;
    let mut read = String::new();
    within(stream.read_to_string(&mut read)).await.unwrap();
    assert_eq!(read, "first");
    drop(stream);
    rejected(&puppet, "abc", &id).await;
}

#[tokio::test]
async fn only_the_connection_of_its_sandbox_opens_a_tunnel() {
    let (links, address, mut puppet, link) = connected().await;
    let other = Puppet::connect(address, "xyz", "zyx").await.unwrap();
    other.register("xyz", Vec::new()).await;
    within(links.connected("xyz")).await;
    let opening = open(&link);
    let (request, id) = puppet.hear_tunnel().await;
    puppet.answer(request, None).await;
    rejected(&other, "abc", &id).await;
    rejected(&other, "xyz", &id).await;
    // A connection without a token cannot open one either.
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let stranger = Puppet {
        client: AgentServiceClient::new(endpoint.connect().await.unwrap()),
        ..other
    };
    rejected(&stranger, "abc", &id).await;
    let _inbound = puppet.tunnel("abc", &id, no_pieces()).await.unwrap();
    assert!(within(opening).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_tunnel_that_comes_after_its_caller_has_left_is_rejected() {
    let (_links, _, mut puppet, link) = connected().await;
    let opening = open(&link);
    let (request, id) = puppet.hear_tunnel().await;
    opening.abort();
    assert!(within(opening).await.unwrap_err().is_cancelled());
    puppet.answer(request, None).await;
    rejected(&puppet, "abc", &id).await;
    // A tunnel that the agent reports as failed is rejected as well.
    let opening = open(&link);
    let (request, id) = puppet.hear_tunnel().await;
    puppet.answer(request, Some(FailureKind::NotOpen)).await;
    let failed = within(opening).await.unwrap();
    assert_eq!(failed.unwrap_err(), LinkError::NotOpen);
    rejected(&puppet, "abc", &id).await;
    works(&mut puppet, &link).await;
}

#[tokio::test]
async fn a_tunnel_that_never_comes_fails_after_a_time() {
    let (_links, _, mut puppet, link) = connected().await;
    let opening = open(&link);
    let (request, _) = puppet.hear_tunnel().await;
    puppet.answer(request, None).await;
    tokio::time::pause();
    assert_eq!(opening.await.unwrap().unwrap_err(), LinkError::TimedOut);
}

#[tokio::test]
async fn pieces_that_are_not_allowed_cut_off_their_tunnel_only() {
    let (_links, _, mut puppet, link) = connected().await;
    let wrong = [
        data(&[0; 1_000_000]),
        data(b""),
        TunnelPiece::default(),
        TunnelPiece {
            filler: vec![0; 1_000_000].into(),
            ..end_piece()
        },
    ];
    for wrong in wrong {
        let pieces = pieces(vec![data(b"right"), wrong, end_piece()]);
        let (mut stream, _inbound) = tunnel_of(&mut puppet, &link, pieces).await;
        let mut read = Vec::new();
        let error = within(stream.read_to_end(&mut read)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(read, b"right");
        assert!(within(stream.read(&mut [0])).await.is_err());
    }
    works(&mut puppet, &link).await;
}

#[tokio::test]
async fn an_agent_that_sends_without_end_fills_only_a_window() {
    let (_links, _, mut puppet, link) = connected().await;
    let sent = Arc::new(AtomicUsize::new(0));
    let mut streams = Vec::new();
    for _ in 0..MAX_TUNNELS - 1 {
        let sent = Arc::clone(&sent);
        let flood = futures::stream::repeat_with(move || {
            sent.fetch_add(60_000, Ordering::Relaxed);
            data(&[0; 60_000])
        });
        streams.push(tunnel_of(&mut puppet, &link, Box::new(flood)).await);
    }
    works(&mut puppet, &link).await;
    let largest = (MAX_TUNNELS - 1) * (STREAM_WINDOW as usize + 4 * 60_000);
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent <= largest, "{sent}");
}

#[tokio::test]
async fn a_writer_waits_for_an_agent_that_does_not_read() {
    let (_links, _, mut puppet, link) = connected().await;
    let (mut stream, mut inbound) = tunnel_of(&mut puppet, &link, no_pieces()).await;
    let writing = tokio::spawn(async move {
        let written = stream.write_all(&vec![1; 10_000_000]).await;
        (written.is_ok(), stream)
    });
    works(&mut puppet, &link).await;
    assert!(!writing.is_finished());
    let mut received = 0;
    while received < 10_000_000 {
        let piece = within(inbound.message()).await.unwrap().unwrap();
        let content = piece.content.unwrap();
        let elevo_agent_proto::v1::tunnel_piece::Content::Data(data) = content else {
            panic!("{content:?}");
        };
        received += data.len();
    }
    let (is_written, stream) = within(writing).await.unwrap();
    assert!(is_written && received == 10_000_000);
    // Without an end, the agent does not take the data as complete.
    drop(stream);
    assert!(within(inbound.message()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_dropped_tunnel_keeps_its_place_while_its_data_waits() {
    let (_links, _, mut puppet, link) = connected().await;
    let (mut stream, mut inbound) = tunnel_of(&mut puppet, &link, no_pieces()).await;
    let writing = tokio::spawn(async move { stream.write_all(&vec![1; 10_000_000]).await });
    // The writer fills the window meanwhile.
    let mut others = Vec::new();
    for _ in 1..MAX_TUNNELS {
        others.push(tunnel_of(&mut puppet, &link, no_pieces()).await);
    }
    writing.abort();
    assert!(within(writing).await.unwrap_err().is_cancelled());
    let many = within(link.open_port(80)).await;
    let limit = MAX_TUNNELS as u64;
    let what = "tunnels".to_owned();
    assert_eq!(many.unwrap_err(), LinkError::TooMany { what, limit });
    // The agent takes the data, and the stream ends.
    while within(inbound.message()).await.unwrap().is_some() {}
    works(&mut puppet, &link).await;
}
