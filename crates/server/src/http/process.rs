use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use elevo_api as api;
use elevo_core::SandboxId;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::processes::Streamed;
use crate::app::processes::output::Ended;
use crate::app::requests::once::Once;
use crate::failure::Failure;
use crate::http::answer::{Answer, counted};
use crate::http::layers;
use crate::http::page::LongPage;
use crate::http::request::{Body, MaybeBody, Path, Query, Who};
use crate::http::shared::Shared;
use crate::http::stream;

/// Bytes of output above which a response is encoded in the tenant's share of
/// threads, because encoding it takes long.
const LARGE: usize = 1 << 20;

/// Run a command
///
/// Responds when the command has ended; with `stream`, sends server-sent events
/// while it runs; with `background`, responds at once. A non-zero exit code is
/// a result, not an error. A command that is killed by its time-out is the error
/// `PROCESS_TIMEOUT` with the status 422 and the result in `details`.
///
/// With `commandId`, the request can be sent again after a lost connection: it
/// attaches to the command that the first request has started.
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/process/run", operation_id = "processes_run", tag = "process",
    params(("id" = String, Path)),
    request_body = api::RunCommand,
    extensions(("x-elevo" = json!({"audit": "command.run", "rate": "command", "disk": "spared"}))),
    responses(
        (status = 200, description = "The result of the command, or a stream of its output", content((api::CommandResult = "application/json"), (api::StreamEvent = "text/event-stream"))),
        (status = 202, description = "The id of the command, which runs in the background", body = api::CommandStarted)
    )
)]
pub(super) async fn run(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    once: Once,
    Body(wish): Body<api::RunCommand>,
) -> Answer<Response> {
    let is_named = wish.command_id.is_some();
    let (app, asker) = (shared.app.clone(), who.clone());
    let running = async move { app.processes.run(&asker, &id, wish, once).await };
    // A client that disconnects must not leave its id recorded without a
    // command.
    let outcome = match is_named {
        true => layers::in_own_task(running).await,
        false => Ok(running.await),
    };
    match outcome.map_err(|error| Failure::internal(&error))?? {
        Streamed::Ended(ended) => {
            let Ended { result, held } = *ended;
            let is_large = result.stdout.len() + result.stderr.len() > LARGE;
            let answering = async { counted(&result, held) };
            Ok(match is_large {
                true => shared.app.stores.shares.apart(who.tenant, answering).await,
                false => answering.await,
            })
        }
        Streamed::Started(started) => Ok((StatusCode::ACCEPTED, Json(started)).into_response()),
        Streamed::Stream(reading, limit) => {
            Ok(stream::answer(&shared, who, reading, limit, 0, true))
        }
    }
}

/// List running and recently ended commands, oldest first
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/process", operation_id = "processes_list", tag = "process", params(("id" = String, Path), LongPage),
    responses((status = 200, description = "A page of commands, oldest first", body = api::CommandPage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    Query(query): Query<LongPage>,
) -> Answer<Json<api::CommandPage>> {
    let page = query.read()?;
    Ok(Json(shared.app.processes.list(&who, &id, page).await?))
}

/// Get a command
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/process/{cmdId}", operation_id = "processes_get", tag = "process",
    params(("id" = String, Path), ("cmdId" = String, Path)),
    responses((status = 200, description = "The command", body = api::CommandInfo))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, command)): Path<(SandboxId, String)>,
) -> Answer<Json<api::CommandInfo>> {
    Ok(Json(shared.app.processes.get(&who, &id, &command).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Output {
    /// Number of output bytes to skip; takes precedence over `Last-Event-ID`.
    offset: Option<u64>,
    /// A ticket in place of a key, for clients that cannot send headers.
    #[allow(dead_code, reason = "checked when the request is admitted")]
    ticket: Option<String>,
}

/// Attach to the output of a command
///
/// Sends server-sent events, beginning at an offset. The id of an event is the
/// offset to reconnect with. A `gap` event reports output that was already
/// discarded.
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/process/{cmdId}/output", operation_id = "processes_output", tag = "process",
    params(("id" = String, Path), ("cmdId" = String, Path), Output,
        ("Last-Event-ID" = Option<u64>, Header, description = "Id of the last event that the client has; `offset` takes precedence.")),
    responses((status = 200, description = "A stream of the output", content_type = "text/event-stream", body = api::StreamEvent))
)]
pub(super) async fn output(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, command)): Path<(SandboxId, String)>,
    Query(query): Query<Output>,
    headers: HeaderMap,
) -> Answer<Response> {
    let last = headers.get("last-event-id").map(|id| {
        let id = id.to_str().ok().and_then(|id| id.parse().ok());
        id.ok_or_else(|| Failure::invalid("`Last-Event-ID` must be the id of an event, a number"))
    });
    let offset = match (query.offset, last) {
        (Some(offset), _) => offset,
        (None, Some(last)) => last?,
        (None, None) => 0,
    };
    let reading = shared
        .app
        .processes
        .attach(&who, &id, &command, offset)
        .await?;
    Ok(stream::answer(&shared, who, reading, None, offset, false))
}

/// Send bytes to the standard input of a command
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/process/{cmdId}/input", operation_id = "processes_input", tag = "process",
    params(("id" = String, Path), ("cmdId" = String, Path)), request_body = api::CommandInput,
    extensions(("x-elevo" = json!({"audit": "command.input", "disk": "spared"}))),
    responses((status = 204, description = "The command received the input"))
)]
pub(super) async fn input(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, command)): Path<(SandboxId, String)>,
    once: Once,
    Body(wish): Body<api::CommandInput>,
) -> Answer<StatusCode> {
    shared
        .app
        .processes
        .input(&who, &id, &command, wish, once)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send a signal to a command and its child processes
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/process/{cmdId}/kill", operation_id = "processes_kill", tag = "process",
    params(("id" = String, Path), ("cmdId" = String, Path)), request_body = Option<api::Kill>,
    extensions(("x-elevo" = json!({"audit": "command.killed", "disk": "spared"}))),
    responses((status = 204, description = "The signal was sent"))
)]
pub(super) async fn kill(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, command)): Path<(SandboxId, String)>,
    MaybeBody(wish): MaybeBody<api::Kill>,
) -> Answer<StatusCode> {
    shared.app.processes.kill(&who, &id, &command, wish).await?;
    Ok(StatusCode::NO_CONTENT)
}
