use elevo_core::SandboxId;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use elevo_agent_link::Event;
use elevo_api as api;
use elevo_api::{PtyClientMessage, PtyServerMessage};
use futures::stream::SplitSink;
use futures::{SinkExt, StreamExt};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::app::access::principal::Principal;
use crate::app::processes::output::{Reading, exit_code};
use crate::app::requests::once::Once;
use crate::app::stopping::Phase;
use crate::config::Config;
use crate::failure::Failure;
use crate::http::answer::{Answer, ApiError};
use crate::http::request::{Body, Path, Query, Who};
use crate::http::shared::Shared;

/// Time without a message from the client after which the server closes the
/// connection.
const SILENCE: Duration = Duration::from_secs(90);

/// Maximum time for a client to receive the last message, and to close the
/// connection when the server stops.
const LEAVING: Duration = Duration::from_secs(1);

/// Create a terminal
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/pty", operation_id = "ptys_create", tag = "pty",
    params(("id" = String, Path)),
    request_body = api::CreatePty,
    extensions(("x-elevo" = json!({"audit": "terminal.opened", "disk": "spared"}))),
    responses((status = 201, description = "The terminal", body = api::PtySession))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    headers: HeaderMap,
    once: Once,
    Body(wish): Body<api::CreatePty>,
) -> Answer<(StatusCode, Json<api::PtySession>)> {
    let pty = shared.app.terminals.create(&who, &id, wish, &once).await?;
    crate::platform::audit::about("terminal_id", pty.as_str());
    let base = websocket_base(&shared.app.config, &headers);
    let session = api::PtySession {
        websocket_url: format!("{base}/api/v1/sandboxes/{id}/pty/{pty}/ws"),
        id: pty,
    };
    Ok((StatusCode::CREATED, Json(session)))
}

/// Returns the base URL of the API for WebSocket clients.
fn websocket_base(config: &Config, headers: &HeaderMap) -> String {
    let of = |scheme: &str| match scheme {
        "https" => "wss",
        _ => "ws",
    };
    if let Some(url) = &config.public_url {
        let text = url.as_str().trim_end_matches('/');
        let rest = text.strip_prefix(url.scheme()).unwrap_or_default();
        return format!("{}{rest}", of(url.scheme()));
    }
    let scheme = of(if config.tls.is_some() {
        "https"
    } else {
        "http"
    });
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.map_or(config.api.to_string(), str::to_owned);
    format!("{scheme}://{host}")
}

/// Change the size of a terminal
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/pty/{ptyId}/resize", operation_id = "ptys_resize", tag = "pty",
    params(("id" = String, Path), ("ptyId" = String, Path)), request_body = api::Resize,
    extensions(("x-elevo" = json!({"audit": "terminal.resized", "disk": "spared"}))),
    responses((status = 204, description = "The size was changed"))
)]
pub(super) async fn resize(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, pty)): Path<(SandboxId, String)>,
    Body(wish): Body<api::Resize>,
) -> Answer<StatusCode> {
    shared.app.terminals.resize(&who, &id, &pty, wish).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Close a terminal
#[utoipa::path(
    delete, path = "/api/v1/sandboxes/{id}/pty/{ptyId}", operation_id = "ptys_close", tag = "pty",
    params(("id" = String, Path), ("ptyId" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "terminal.closed"}))),
    responses((status = 204, description = "The terminal was closed"))
)]
pub(super) async fn close(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, pty)): Path<(SandboxId, String)>,
) -> Answer<StatusCode> {
    shared.app.terminals.close(&who, &id, &pty).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Frames {
    #[default]
    Json,
    Binary,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Connect {
    /// Number of output bytes to skip: the bytes that the client already
    /// received on earlier connections. 0 by default.
    offset: Option<u64>,
    /// Whether output is sent as `json` messages or `binary` frames.
    #[param(inline)]
    format: Option<Frames>,
}

/// Connect to a terminal by WebSocket
///
/// Text messages are JSON objects: the client sends `PtyClientMessage`, and the
/// server sends `PtyServerMessage`. A binary frame from the client is raw input.
/// With `format=binary`, the server sends output as binary frames.
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/pty/{ptyId}/ws", operation_id = "ptys_connect", tag = "pty",
    params(("id" = String, Path), ("ptyId" = String, Path), Connect),
    extensions(("x-elevo" = json!({"audit": "terminal.connected"}))),
    responses((status = 101, description = "The connection is now a WebSocket with these messages", body = elevo_api::PtyMessages))
)]
pub(super) async fn connect(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, pty)): Path<(SandboxId, String)>,
    Query(query): Query<Connect>,
    Upgrade(upgrade): Upgrade,
) -> Answer<Response> {
    let offset = query.offset.unwrap_or_default();
    let (reading, watcher) = shared.app.terminals.watch(&who, &id, &pty, offset).await?;
    let frames = query.format.unwrap_or_default();
    let upgrade = upgrade.max_message_size(1 << 20).max_frame_size(1 << 20);
    let work = shared.app.stopping.work();
    Ok(upgrade.on_upgrade(move |socket| async move {
        let terminal = Connected {
            app: shared.app.clone(),
            who,
            sandbox: id,
            pty,
            frames,
            offset,
        };
        terminal.serve(socket, reading).await;
        drop((watcher, work));
    }))
}

/// A request to upgrade to a WebSocket.
pub(super) struct Upgrade(WebSocketUpgrade);

impl FromRequestParts<Shared> for Upgrade {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        shared: &Shared,
    ) -> Result<Self, ApiError> {
        let upgrade = WebSocketUpgrade::from_request_parts(parts, shared).await;
        let upgrade = upgrade.map_err(|error| Failure::invalid(error.body_text()))?;
        Ok(Self(upgrade))
    }
}

struct Connected {
    app: Arc<App>,
    who: Principal,
    sandbox: SandboxId,
    pty: String,
    frames: Frames,
    offset: u64,
}

impl Connected {
    async fn serve(&self, socket: WebSocket, reading: Reading) {
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
                    Err(failure) => {
                        let message = failure.message;
                        text(&PtyServerMessage::Error { message })
                    }
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
                let refusing = refuse(&mut out, failure);
                let _ = tokio::time::timeout(LEAVING, refusing).await;
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
                    let exit_code = exit_code(&exit);
                    (text(&PtyServerMessage::Exit { exit_code }), true)
                }
                Err(failure) => {
                    let message = failure.message;
                    (text(&PtyServerMessage::Error { message }), true)
                }
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
            Message::Binary(data) => {
                self.app
                    .terminals
                    .input(&self.sandbox, &self.pty, data)
                    .await?
            }
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
                    PtyClientMessage::Input { data } => {
                        let data = STANDARD.decode(data);
                        let data = data.map_err(|_| Failure::invalid("`data` is not base64"))?;
                        self.app
                            .terminals
                            .input(&self.sandbox, &self.pty, data.into())
                            .await?;
                    }
                }
            }
            // The WebSocket library responds to protocol pings.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => {}
        }
        Ok(None)
    }
}

/// Reports that the key has become invalid, and closes the connection.
async fn refuse(
    out: &mut SplitSink<WebSocket, Message>,
    failure: Failure,
) -> Result<(), axum::Error> {
    let message = failure.message;
    let reason = message.clone();
    out.send(text(&PtyServerMessage::Error { message })).await?;
    let frame = CloseFrame {
        code: close_code::POLICY,
        reason: reason.into(),
    };
    out.send(Message::Close(Some(frame))).await
}

/// Reports that the server is stopping, and closes the connection.
async fn warn(out: &mut SplitSink<WebSocket, Message>) -> Result<(), axum::Error> {
    let message = "the server is stopping; reconnect with the number of received bytes as `offset`"
        .to_owned();
    out.send(text(&PtyServerMessage::Stopping { message }))
        .await?;
    let frame = CloseFrame {
        code: close_code::AWAY,
        reason: "the server is stopping".into(),
    };
    out.send(Message::Close(Some(frame))).await
}

fn text(message: &PtyServerMessage) -> Message {
    Message::Text(serde_json::to_string(message).unwrap_or_default().into())
}
