use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use elevo_api as api;
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use crate::app::events::{EventsQuery, Followed, Following};
use crate::app::projects::project_ref::ProjectRef;
use crate::app::stopping::Phase;
use crate::failure::Failure;
use crate::http::answer::Answer;
use crate::http::layers;
use crate::http::request::{Query, Who};
use crate::http::shared::Shared;
use crate::http::stream::{self, Encoded};

/// Maximum duration of a stream; its client then reconnects.
const LONGEST: Duration = Duration::from_secs(3600);

const STOPPING: &str =
    "the server is stopping; reconnect with the id of the last event as `Last-Event-ID`";

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Events {
    /// Kinds of events to return, such as `sandbox.created`, separated by
    /// commas. Default: all events that the key may see.
    kinds: Option<String>,
    /// Only events of this sandbox, by id or name.
    sandbox: Option<String>,
    /// Only events of this project, by id or name.
    project: Option<String>,
    /// Cursor: `next` of the previous page, or the id of an event. Only later
    /// events are returned. Takes precedence over `Last-Event-ID`.
    cursor: Option<String>,
    /// Maximum number of events, if they are not streamed; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// A ticket in place of a key, for clients that cannot send headers.
    #[allow(dead_code, reason = "checked when the request is admitted")]
    ticket: Option<String>,
}

/// List past events, or follow new ones
///
/// The ids of events increase in order. Every page has `next`, also the last
/// one, because events go on: a client polls by requesting it again. A request
/// that accepts `text/event-stream` receives events as they happen: those after
/// `cursor` or `Last-Event-ID`, or only new ones if both are absent. It begins
/// with the id of the last event before it, without data, so that a client that
/// is cut off at once can reconnect there. A stream
/// ends after an hour at the latest, and when its key is revoked or expires;
/// reconnect with the id of the last event. If the server stops, the last event
/// of the stream is `stopping`; if the stream fails or its key becomes invalid,
/// it is `error`. Both have no id.
///
/// The server keeps events for a week by default (`EVENTS_KEEP`). If events
/// after `cursor` or `Last-Event-ID` were deleted, the page has `gap`, and the
/// stream sends the event `gap`, without an id, before the events after it:
/// events with an id below `oldest` may be missing.
#[utoipa::path(
    get, path = "/api/v1/events", operation_id = "events_list", tag = "events",
    params(Events, ("Last-Event-ID" = Option<u64>, Header, description = "Id of the last event that the client has; `cursor` takes precedence.")),
    responses(
        (status = 200, description = "A page of events, or a stream of events without an end", content((api::EventPage = "application/json"), (api::EventItem = "text/event-stream")))
    )
)]
pub(super) async fn events(
    State(shared): State<Shared>,
    Who(who): Who,
    headers: HeaderMap,
    Query(query): Query<Events>,
) -> Answer<Response> {
    if query.sandbox.is_some() && query.project.is_some() {
        let message = "`sandbox` and `project` cannot be combined";
        return Err(Failure::invalid(message).into());
    }
    let subject = match (&query.sandbox, &query.project) {
        (Some(sandbox), _) => Some(shared.app.names.sandbox(&who, sandbox).await?.to_string()),
        // The id of a project that was deleted is not looked up.
        (None, Some(project)) => match ProjectRef::from(&**project) {
            ProjectRef::Id(id) => Some(id.to_string()),
            name => Some(shared.app.projects.find(&who, &name).await?.id.to_string()),
        },
        (None, None) => None,
    };
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let last = text(header::HeaderName::from_static("last-event-id"));
    let last = last.map(str::parse).transpose();
    let last =
        last.map_err(|_| Failure::invalid("`Last-Event-ID` must be the id of an event, a number"))?;
    let cursor = query.cursor.as_deref().map(str::parse).transpose();
    let cursor = cursor.map_err(|_| crate::app::pages::not_a_cursor())?;
    let wanted = EventsQuery {
        kinds: query.kinds,
        subject,
        cursor: cursor.or(last),
        limit: query.limit,
    };
    let accept = text(header::ACCEPT);
    if !accept.is_some_and(|accept| accept.contains("text/event-stream")) {
        let page = shared.app.events.list(&who, &wanted).await?;
        return Ok(Json(page).into_response());
    }
    let following = shared.app.events.follow(&who, &wanted).await?;
    let (sender, receiver) = mpsc::channel(4);
    let (app, work) = (shared.app.clone(), shared.app.stopping.work());
    let request_id = layers::request_id();
    tokio::spawn(async move {
        let other = sender.clone();
        tokio::select! {
            failure = send_all(following, sender) => {
                if let Some(failure) = failure {
                    stream::send_last(&other, error(&failure, &request_id)).await;
                }
            }
            () = other.closed() => {}
            () = app.stopping.entered(Phase::Draining) => stream::send_last(&other, stopping(STOPPING)).await,
            failure = app.principals.invalid(&who) => {
                stream::send_last(&other, error(&failure, &request_id)).await;
            }
            () = tokio::time::sleep(LONGEST) => {}
        }
        drop(work);
    });
    Ok(stream::respond_in_batches(receiver))
}

/// The last event of a stream that ends because the server stops. It has no id,
/// so that a client that reconnects continues after the last event with an id.
pub(super) fn stopping(message: &str) -> Encoded {
    let data = serde_json::json!({ "message": message });
    let event = SseEvent::default().retry(Duration::from_secs(5));
    Ok(event.event("stopping").data(data.to_string()))
}

/// The last event of a stream that failed. It has no id either.
pub(super) fn error(failure: &Failure, request_id: &str) -> Encoded {
    let data = serde_json::json!({ "error": failure.body(request_id) });
    Ok(SseEvent::default().event("error").data(data.to_string()))
}

/// Sends events as they happen. Returns the failure that ends the stream, or
/// `None` if the client has disconnected.
async fn send_all(mut following: Following, sender: mpsc::Sender<Vec<Encoded>>) -> Option<Failure> {
    // Shows the client that the stream has begun, and where: a client that loses
    // the connection before the first event continues from there.
    let begun = SseEvent::default()
        .comment("begun")
        .id(following.after().to_string());
    if sender.send(vec![Ok(begun)]).await.is_err() {
        return None;
    }
    loop {
        let followed = match following.next().await {
            Ok(followed) => followed,
            Err(failure) => {
                tracing::warn!(cause = failure.summary(), "a stream of events failed");
                return Some(failure);
            }
        };
        let events = match followed {
            Followed::Events(events) => events.iter().map(encode).collect(),
            Followed::Gap(gap) => vec![encode_gap(gap)],
        };
        if sender.send(events).await.is_err() {
            return None;
        }
    }
}

fn encode(event: &api::Event) -> Encoded {
    let json = serde_json::to_string(event)?;
    Ok(SseEvent::default()
        .id(event.id.to_string())
        .event(&event.kind)
        .data(json))
}

/// Has no id, so that a client that reconnects gets the gap again if it has
/// received no event after it.
fn encode_gap(gap: api::EventGap) -> Encoded {
    let json = serde_json::to_string(&gap)?;
    Ok(SseEvent::default().event("gap").data(json))
}
