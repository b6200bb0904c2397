//! The WebSocket of a terminal.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use elevo_agent_link::Event;
use elevo_api::{PtyClientMessage, PtyServerMessage};
use elevo_core::{ErrorCode, SandboxId};
use futures::stream::SplitSink;
use futures::{SinkExt, StreamExt};

use crate::app::App;
use crate::app::access::principal::Principal;
use crate::app::processes::output::{Reading, exit_code};
use crate::app::processes::terminals::{Watcher, no_pty};
use crate::app::stopping::Phase;
use crate::failure::Failure;
use crate::http::pty::Frames;

/// The subprotocol, which is selected if the client offers it.
pub(super) const PROTOCOL: &str = "elevo.pty.v1";

/// Time without a message from the client after which the server closes the
/// connection.
const SILENCE: Duration = Duration::from_secs(90);

/// Maximum time for a client to receive the last message, and to close the
/// connection when the server stops.
const LEAVING: Duration = Duration::from_secs(1);

/// Close code of a connection whose key was revoked or has expired.
const KEY_INVALID: u16 = 4401;

/// Close code of a connection whose terminal no longer exists.
const TERMINAL_GONE: u16 = 4404;

/// Close code of a connection that a newer one of the same client replaces.
const REPLACED: u16 = 4409;

/// A client that is connected to a terminal.
pub(super) struct Connected {
    pub(super) app: Arc<App>,
    pub(super) who: Principal,
    pub(super) sandbox: SandboxId,
    pub(super) pty: String,
    pub(super) frames: Frames,
    pub(super) offset: u64,
    /// The client's name for its numbered input.
    pub(super) client: String,
    /// Id of the request that opened the connection.
    pub(super) request_id: String,
}

impl Connected {
    pub(super) async fn serve(&self, socket: WebSocket, reading: Reading, watcher: &Watcher) {
        let (mut out, mut input) = socket.split();
        // Responses to client messages, sent between pieces of output.
        let (answers, mut answered) = tokio::sync::mpsc::channel(8);
        let (pieces, mut output) = tokio::sync::mpsc::channel(4);
        let writing = async {
            out.send(text(&PtyServerMessage::Attached {
                offset: self.offset,
            }))
            .await?;
            loop {
                let message = tokio::select! {
                    biased;
                    () = self.app.stopping.entered(Phase::Draining) => return warn(&mut out).await,
                    Some(answer) = answered.recv() => answer,
                    piece = output.recv() => match piece {
                        Some(piece) => piece,
                        None => return out.send(Message::Close(None)).await,
                    },
                };
                out.send(message).await?;
            }
        };
        let listening = async {
            while let Ok(Some(Ok(message))) = tokio::time::timeout(SILENCE, input.next()).await {
                let answer = match self.hear(message).await {
                    Ok(None) => continue,
                    Ok(Some(answer)) => answer,
                    Err(failure) => self.error(&failure),
                };
                if answers.send(answer).await.is_err() {
                    return;
                }
            }
        };
        let reading = async {
            self.read_all(reading, pieces).await;
            // Waits without end: the writer still sends the last pieces, and
            // then closes the connection.
            std::future::pending().await
        };
        tokio::select! {
            _ = writing => {}
            () = reading => {}
            () = listening => {}
            failure = self.app.principals.invalid(&self.who) => {
                let refusing = self.refuse(&mut out, failure);
                let _ = tokio::time::timeout(LEAVING, refusing).await;
            }
            () = watcher.replaced() => {
                let closing = close(REPLACED, "a newer connection of this client replaces this one");
                let _ = tokio::time::timeout(LEAVING, out.send(closing)).await;
            }
            () = self.app.stopping.entered(Phase::Cutting) => {}
        }
        if self.app.stopping.is_stopping() {
            // Closing a socket with unread input resets the connection, and the
            // client would lose the last messages.
            let rest = async { while let Some(Ok(_)) = input.next().await {} };
            let _ = tokio::time::timeout(LEAVING, rest).await;
        }
    }

    async fn read_all(&self, mut reading: Reading, pieces: tokio::sync::mpsc::Sender<Message>) {
        loop {
            let (message, is_last) = match reading.next().await {
                Ok(Event::Data { offset, data, .. }) => (self.piece(offset, &data), false),
                Ok(Event::Gap { to, .. }) => {
                    (text(&PtyServerMessage::Attached { offset: to }), false)
                }
                Ok(Event::Exit(exit)) => {
                    let message = PtyServerMessage::Exit {
                        exit_code: exit_code(&exit),
                        signal: exit.signal,
                    };
                    (text(&message), true)
                }
                Err(failure) if failure.code == ErrorCode::ProcessNotFound => {
                    let gone = self.error(&no_pty(&self.pty));
                    let closing = close(TERMINAL_GONE, "the terminal no longer exists");
                    let _ = pieces.send(gone).await;
                    (closing, true)
                }
                Err(failure) => (self.error(&failure), true),
            };
            if pieces.send(message).await.is_err() || is_last {
                return;
            }
        }
    }

    fn piece(&self, offset: u64, data: &bytes::Bytes) -> Message {
        match self.frames {
            Frames::Binary => Message::Binary(data.clone()),
            Frames::Json => {
                let data = STANDARD.encode(data);
                text(&PtyServerMessage::Output { data, offset })
            }
        }
    }

    /// Handles a client's message, and returns the response to it, if any.
    async fn hear(&self, message: Message) -> Result<Option<Message>, Failure> {
        match message {
            Message::Binary(data) => self.input(data, None).await?,
            Message::Text(json) => {
                let read = serde_json::from_str(&json);
                match read.map_err(|error| Failure::invalid(error.to_string()))? {
                    PtyClientMessage::Ping => return Ok(Some(text(&PtyServerMessage::Pong))),
                    PtyClientMessage::Resize { cols, rows } => {
                        self.app
                            .terminals
                            .resize_now(&self.sandbox, &self.pty, cols, rows)
                            .await?;
                    }
                    PtyClientMessage::Input { data, seq } => {
                        let data = STANDARD.decode(data);
                        let data = data.map_err(|_| Failure::invalid("`data` is not base64"))?;
                        self.input(data.into(), seq).await?;
                        return Ok(seq.map(|seq| text(&PtyServerMessage::Ack { seq })));
                    }
                }
            }
            // The WebSocket library responds to protocol pings.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => {}
        }
        Ok(None)
    }

    async fn input(&self, data: Bytes, seq: Option<u64>) -> Result<(), Failure> {
        let (terminals, sandbox, pty) = (&self.app.terminals, &self.sandbox, &self.pty);
        match seq {
            None => terminals.input(sandbox, pty, data).await,
            Some(seq) => {
                let number = (self.client.as_str(), seq);
                terminals.numbered_input(sandbox, pty, data, number).await
            }
        }
    }

    fn error(&self, failure: &Failure) -> Message {
        let error = failure.body(&self.request_id);
        text(&PtyServerMessage::Error { error })
    }

    /// Reports that the key has become invalid, and closes the connection.
    async fn refuse(
        &self,
        out: &mut SplitSink<WebSocket, Message>,
        failure: Failure,
    ) -> Result<(), axum::Error> {
        out.send(self.error(&failure)).await?;
        out.send(close(KEY_INVALID, &failure.message)).await
    }
}

/// Reports that the server is stopping, and closes the connection.
async fn warn(out: &mut SplitSink<WebSocket, Message>) -> Result<(), axum::Error> {
    let message = "the server is stopping; reconnect with the number of received bytes as `offset`"
        .to_owned();
    out.send(text(&PtyServerMessage::Stopping { message }))
        .await?;
    let closing = close(close_code::AWAY, "the server is stopping");
    out.send(closing).await
}

fn text(message: &PtyServerMessage) -> Message {
    Message::Text(serde_json::to_string(message).unwrap_or_default().into())
}

fn close(code: u16, reason: &str) -> Message {
    let reason = reason.into();
    Message::Close(Some(CloseFrame { code, reason }))
}
