//! Watches of files as server-sent events.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event as SseEvent;
use elevo_api as api;
use elevo_api::WatchKind;
use elevo_core::{SandboxId, WorkspaceId};
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::access::principal::Principal;
use crate::app::files::target::WorkspaceRef;
use crate::app::files::watching::Watching;
use crate::app::stopping::Phase;
use crate::failure::Failure;
use crate::http::answer::Answer;
use crate::http::request::{Path, Query, Who};
use crate::http::shared::Shared;
use crate::http::stream::{self, Encoded};
use crate::http::{events, layers};

/// Maximum duration of a stream; its client then reconnects.
const LONGEST: Duration = Duration::from_secs(3600);

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(sandbox))
        .routes(routes!(workspace))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Watch {
    /// The directory: a path relative to the workspace, or a path below
    /// `/workspace` or `/home/agent`. Default: the workspace.
    path: Option<String>,
    /// A ticket in place of a key, for clients that cannot send headers.
    #[allow(dead_code, reason = "checked when the request is admitted")]
    ticket: Option<String>,
}

/// Watch the files of a sandbox
///
/// Sends server-sent events about all files below a directory of the workspace or
/// the home. The first event is `watching`: a client that lists the files after it
/// misses no change. Then come `created`, `changed` and `deleted`. An event may be
/// repeated, and repeated changes of a file within a short time may be one event.
///
/// If events are lost, because the files change faster than the client reads, the
/// stream sends `gap`: the client lists the files again, and later changes have
/// events. A new connection begins with `watching` again. If the server stops, the last
/// event is `stopping`; if the workspace or the directory no longer exists, or the
/// key becomes invalid, it is `error`. Both have no id. A stream ends after an
/// hour at the latest.
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/files/watch", operation_id = "sandboxes_watch", tag = "files",
    params(("id" = String, Path), Watch),
    responses((status = 200, description = "A stream of changes", content_type = "text/event-stream", body = api::WatchEvent))
)]
pub(super) async fn sandbox(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    Query(query): Query<Watch>,
) -> Answer<Response> {
    watch(&shared, who, (&id).into(), query).await
}

/// Watch the files of a workspace
///
/// Sends the same events as `GET /api/v1/sandboxes/{id}/files/watch`.
#[utoipa::path(
    get, path = "/api/v1/workspaces/{id}/files/watch", operation_id = "workspaces_watch", tag = "workspaces",
    params(("id" = String, Path), Watch),
    responses((status = 200, description = "A stream of changes", content_type = "text/event-stream", body = api::WatchEvent))
)]
pub(super) async fn workspace(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Query(query): Query<Watch>,
) -> Answer<Response> {
    watch(&shared, who, (&id).into(), query).await
}

async fn watch(
    shared: &Shared,
    who: Principal,
    of: WorkspaceRef,
    query: Watch,
) -> Answer<Response> {
    let path = query.path.unwrap_or_default();
    let watching = shared.app.watches.start(&who, of, &path).await?;
    // One batch, so that a slow client occupies little memory.
    let (sender, receiver) = mpsc::channel(1);
    let (app, work) = (shared.app.clone(), shared.app.stopping.work());
    let request_id = layers::request_id();
    tokio::spawn(async move {
        let other = sender.clone();
        tokio::select! {
            failure = send_all(watching, sender) => {
                if let Some(failure) = failure {
                    stream::send_last(&other, events::error(&failure, &request_id)).await;
                }
            }
            () = other.closed() => {}
            () = app.stopping.entered(Phase::Draining) => {
                let message = "the server is stopping; reconnect, and list the files again";
                stream::send_last(&other, events::stopping(message)).await;
            }
            failure = app.principals.invalid(&who) => {
                stream::send_last(&other, events::error(&failure, &request_id)).await;
            }
            () = tokio::time::sleep(LONGEST) => {}
        }
        drop(work);
    });
    Ok(stream::respond_in_batches(receiver))
}

/// Sends events as they happen. Returns the failure that ends the stream, or
/// `None` if the client has disconnected.
async fn send_all(mut watching: Watching, sender: mpsc::Sender<Vec<Encoded>>) -> Option<Failure> {
    let begun = watching.begun();
    if sender.send(vec![encode(&begun)]).await.is_err() {
        return None;
    }
    loop {
        let events = match watching.next().await {
            Ok(events) => events,
            Err(failure) => {
                if failure.code.http() >= 500 {
                    tracing::warn!(cause = failure.summary(), "a watch of files failed");
                }
                return Some(failure);
            }
        };
        if sender
            .send(events.iter().map(encode).collect())
            .await
            .is_err()
        {
            return None;
        }
    }
}

fn encode(event: &api::WatchEvent) -> Encoded {
    let name = match event.kind {
        WatchKind::Watching => "watching",
        WatchKind::Created => "created",
        WatchKind::Changed => "changed",
        WatchKind::Deleted => "deleted",
        WatchKind::Gap => "gap",
    };
    let json = serde_json::to_string(event)?;
    let id = event.id.to_string();
    Ok(SseEvent::default().event(name).id(id).data(json))
}
