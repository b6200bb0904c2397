use axum::Json;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::response::Response;
use elevo_api as api;
use elevo_core::SandboxId;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::requests::once::Once;
use crate::failure::Failure;
use crate::http::address::Address;
use crate::http::answer::{Answer, ApiError};
use crate::http::layers;
use crate::http::pty_socket::{Connected, PROTOCOL};
use crate::http::request::{Body, Path, Query, Who};
use crate::http::shared::Shared;

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
    address: Address,
    once: Once,
    Body(wish): Body<api::CreatePty>,
) -> Answer<(StatusCode, Json<api::PtySession>)> {
    let pty = shared.app.terminals.create(&who, &id, wish, &once).await?;
    crate::platform::audit::about("terminal_id", pty.as_str());
    let path = format!("/api/v1/sandboxes/{id}/pty/{pty}/ws");
    let session = api::PtySession {
        websocket_url: address.url(&path),
        id: pty,
    };
    Ok((StatusCode::CREATED, Json(session)))
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
    /// The client's name for its numbered input: 1 to 64 letters, digits, `.`,
    /// `_` and `-`. Clients of one terminal that number their input need
    /// different names, and keep them when they reconnect: a new connection
    /// replaces the earlier one of the same name.
    #[param(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    client: Option<String>,
    /// A ticket in place of a key, for clients that cannot send headers.
    #[allow(dead_code, reason = "checked when the request is admitted")]
    ticket: Option<String>,
}

/// Connect to a terminal by WebSocket
///
/// Text messages are JSON objects: the client sends `PtyClientMessage`, and the
/// server sends `PtyServerMessage`. A binary frame from the client is raw input.
/// With `format=binary`, the server sends output as binary frames. The
/// subprotocol `elevo.pty.v1` is selected if the client offers it. Several
/// clients can be connected to a terminal.
///
/// The server closes the connection with the code 1001 when it stops, 4401 when
/// the key was revoked or has expired, 4404 when the terminal does not exist, and
/// 4409 when a newer connection with the same `client` replaces it.
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
    let client = query.client.unwrap_or_default();
    check_client(&client)?;
    let offset = query.offset.unwrap_or_default();
    let place = (client.as_str(), offset);
    let (reading, watcher) = shared.app.terminals.watch(&who, &id, &pty, place).await?;
    let frames = query.format.unwrap_or_default();
    let upgrade = upgrade.protocols([PROTOCOL]);
    let upgrade = upgrade.max_message_size(1 << 20).max_frame_size(1 << 20);
    let request_id = layers::request_id();
    let work = shared.app.stopping.work();
    Ok(upgrade.on_upgrade(move |socket| async move {
        let terminal = Connected {
            app: shared.app.clone(),
            who,
            sandbox: id,
            pty,
            frames,
            offset,
            client,
            request_id,
        };
        terminal.serve(socket, reading, &watcher).await;
        drop((watcher, work));
    }))
}

fn check_client(client: &str) -> Result<(), Failure> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match client.len() <= 64 && client.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(Failure::invalid(
            "`client` must have 1 to 64 letters, digits, `.`, `_` or `-`",
        )),
    }
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
