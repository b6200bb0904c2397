//! A terminal in a sandbox, over a WebSocket.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use elevo_api::{CreatePty, PtyClientMessage, PtyServerMessage, PtySession};
use elevo_core::ErrorCode;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use parking_lot::Mutex;
use reqwest::header::{
    AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use reqwest::{StatusCode, Upgraded};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use crate::client::again::{BackOff, random_name};
use crate::client::error::{ClientError, Result};
use crate::client::http::{CONNECT, Client};
use crate::client::paths::sandbox_path;

/// Maximum time without a message. The client sends two pings in this time, and
/// the server responds to each.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum bytes of a message.
const LARGEST: usize = 4 << 20;

/// Maximum number of messages with input that are not acknowledged.
const MAX_UNACKNOWLEDGED: usize = 32;

/// Maximum number of messages that wait to be sent.
const WAITING: usize = 8;

type Socket = WebSocketStream<Upgraded>;

/// A terminal in a sandbox.
#[derive(Debug)]
pub(crate) struct Terminal {
    client: Client,
    sandbox: String,
    id: String,
    /// The name for the numbered input of this client.
    name: String,
    /// Offset in the output up to which data was returned.
    position: u64,
    unacknowledged: Unacknowledged,
    open: Option<Open>,
}

/// Keyboard input that the terminal may not have. It is sent again after a
/// reconnect; the terminal ignores a number that it has.
#[derive(Clone, Debug)]
struct Unacknowledged {
    sent: Arc<Mutex<Sent>>,
    /// Permits to send more input.
    room: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Sent {
    last: u64,
    waiting: VecDeque<(u64, Message)>,
}

impl Unacknowledged {
    fn new() -> Self {
        Self {
            sent: Arc::default(),
            room: Arc::new(Semaphore::new(MAX_UNACKNOWLEDGED)),
        }
    }

    /// Gives input a number, and returns the message.
    fn number(&self, data: &[u8]) -> Message {
        let mut sent = self.sent.lock();
        sent.last += 1;
        let seq = sent.last;
        let message = text(&PtyClientMessage::Input {
            data: BASE64_STANDARD.encode(data),
            seq: Some(seq),
        });
        sent.waiting.push_back((seq, message.clone()));
        message
    }

    fn acknowledge(&self, seq: u64) {
        let mut sent = self.sent.lock();
        let before = sent.waiting.len();
        sent.waiting.retain(|(waiting, _)| *waiting > seq);
        self.room.add_permits(before - sent.waiting.len());
    }

    fn messages(&self) -> Vec<Message> {
        let sent = self.sent.lock();
        let messages = sent.waiting.iter().map(|(_, message)| message.clone());
        messages.collect()
    }
}

#[derive(Debug)]
struct Open {
    out: mpsc::Sender<Message>,
    input: SplitStream<Socket>,
}

/// Sends keyboard input. The queue is full while the server accepts nothing, and
/// closed once the connection is.
#[derive(Clone, Debug)]
pub(crate) struct Keys(mpsc::Sender<Message>, Unacknowledged);

impl Keys {
    /// Waits until the queue has room, and reserves it for one message.
    pub(crate) async fn room(self) -> Option<Room> {
        let permit = self.1.room.clone().acquire_owned().await.ok()?;
        let place = self.0.reserve_owned().await.ok()?;
        Some(Room {
            permit,
            place,
            unacknowledged: self.1,
        })
    }

    /// Sends the size of the window. Returns false if the queue is full.
    pub(crate) fn resize(&self, cols: u16, rows: u16) -> bool {
        let message = text(&PtyClientMessage::Resize { cols, rows });
        self.0.try_send(message).is_ok()
    }

    /// Sends a keep-alive. If the queue is full, the waiting messages serve as
    /// one.
    pub(crate) fn ping(&self) {
        let _ = self.0.try_send(text(&PtyClientMessage::Ping));
    }
}

/// A reserved place in the queue for one message.
#[derive(Debug)]
pub(crate) struct Room {
    permit: OwnedSemaphorePermit,
    place: mpsc::OwnedPermit<Message>,
    unacknowledged: Unacknowledged,
}

impl Room {
    pub(crate) fn type_in(self, data: &[u8]) {
        // The acknowledgement releases the permit.
        self.permit.forget();
        self.place.send(self.unacknowledged.number(data));
    }
}

/// Sends messages in a separate task, so that reading and sending do not wait
/// for each other.
async fn send_all(
    mut out: SplitSink<Socket, Message>,
    first: Vec<Message>,
    mut waiting: mpsc::Receiver<Message>,
) {
    for message in first {
        if out.send(message).await.is_err() {
            return;
        }
    }
    while let Some(message) = waiting.recv().await {
        if out.send(message).await.is_err() {
            return;
        }
    }
    let _ = out.close().await;
}

/// A message from a terminal.
#[derive(Debug)]
pub(crate) enum Heard {
    Output(Bytes),
    Exit(i32),
}

impl Terminal {
    pub(crate) async fn create(client: &Client, sandbox: &str, wish: &CreatePty) -> Result<Self> {
        let path = sandbox_path(sandbox, &["pty"]);
        let session: PtySession = client.post(&path, wish).await?;
        Ok(Self {
            client: client.clone(),
            sandbox: sandbox.into(),
            id: session.id,
            name: random_name()?,
            position: 0,
            unacknowledged: Unacknowledged::new(),
            open: None,
        })
    }

    /// Connects, or reconnects at the offset where the output stopped.
    pub(crate) async fn connect(&mut self) -> Result<Keys> {
        self.open = None;
        let mut back_off = BackOff::new();
        loop {
            match self.try_connect().await {
                Ok(open) => {
                    let keys = Keys(open.out.clone(), self.unacknowledged.clone());
                    self.open = Some(open);
                    return Ok(keys);
                }
                Err(error) if error.is_worth_repeating() => back_off.wait(error).await?,
                Err(error) => return Err(error),
            }
            self.client.look_again();
        }
    }

    async fn try_connect(&self) -> Result<Open> {
        let path = sandbox_path(&self.sandbox, &["pty", &self.id, "ws"]);
        let mut url = self.client.at(&path);
        let query = format!(
            "format=binary&offset={}&client={}",
            self.position, self.name
        );
        url.set_query(Some(&query));
        let key = generate_key();
        let request = self.client.http.get(url);
        let request = request
            .header(AUTHORIZATION, self.client.key.clone())
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let answer = match timeout(2 * CONNECT, request.send()).await {
            Ok(answer) => answer.map_err(|error| self.client.lost(error))?,
            Err(_) => {
                let message = "the server does not respond".into();
                return Err(ClientError::Told { message });
            }
        };
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.client.refused(answer).await);
        }
        let accepted = answer.headers().get(SEC_WEBSOCKET_ACCEPT);
        let expected = derive_accept_key(key.as_bytes());
        if accepted.is_none_or(|accepted| accepted != expected.as_str()) {
            return Err(ClientError::Stream(
                "a WebSocket handshake with a wrong key",
            ));
        }
        let upgraded = answer.upgrade().await;
        let upgraded = upgraded.map_err(|error| self.client.lost(error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(LARGEST))
            .max_frame_size(Some(LARGEST));
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        let (sink, input) = socket.split();
        let (out, waiting) = mpsc::channel(WAITING);
        let first = self.unacknowledged.messages();
        tokio::spawn(send_all(sink, first, waiting));
        Ok(Open { out, input })
    }

    fn failed(&self, error: WsError) -> ClientError {
        ClientError::Socket {
            url: self.client.url().to_owned(),
            source: Box::new(error),
        }
    }

    /// Returns the next message. After an error, call [`Self::connect`] again.
    pub(crate) async fn hear(&mut self) -> Result<Heard> {
        let Some(open) = &mut self.open else {
            let message = "not connected".into();
            return Err(ClientError::Told { message });
        };
        loop {
            let heard = timeout(SILENCE, open.input.next()).await;
            let message = match heard {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(error))) => return Err(self.failed(error)),
                Ok(None) | Err(_) => {
                    let message = "the server ended the connection".into();
                    return Err(ClientError::Told { message });
                }
            };
            match message {
                Message::Binary(data) => {
                    self.position += data.len() as u64;
                    return Ok(Heard::Output(data));
                }
                Message::Text(text) => {
                    let message = serde_json::from_str(&text).map_err(ClientError::Answer)?;
                    match message {
                        PtyServerMessage::Attached { offset } => self.position = offset,
                        PtyServerMessage::Ack { seq } => self.unacknowledged.acknowledge(seq),
                        PtyServerMessage::Exit { exit_code, .. } => {
                            return Ok(Heard::Exit(exit_code));
                        }
                        // The program has ended before it received all input.
                        // Its exit follows.
                        PtyServerMessage::Error { error }
                            if error.code() == Some(ErrorCode::ProcessNotFound) => {}
                        PtyServerMessage::Error { error } => {
                            let message = error.message;
                            return Err(ClientError::Told { message });
                        }
                        PtyServerMessage::Stopping { message } => {
                            return Err(ClientError::Told { message });
                        }
                        PtyServerMessage::Pong | PtyServerMessage::Output { .. } => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// Deletes the terminal and kills the programs in it.
    pub(crate) async fn close(&self) -> Result<()> {
        let path = sandbox_path(&self.sandbox, &["pty", &self.id]);
        let request = self.client.request(reqwest::Method::DELETE, &path);
        self.client.done(request).await
    }
}

fn text(message: &PtyClientMessage) -> Message {
    Message::Text(serde_json::to_string(message).unwrap_or_default().into())
}
