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

use crate::app::events::{EventsQuery, Following};
use crate::app::stopping::Phase;
use crate::failure::Failure;
use crate::http::answer::Answer;
use crate::http::layers;
use crate::http::request::{Query, Who};
use crate::http::shared::Shared;
use crate::http::stream::{self, Encoded};

/// Maximum duration of a stream; its client then reconnects.
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Events {
    /// Kinds of events to return, such as `sandbox.created`, separated by
    /// commas. Default: all events that the key may see.
    kinds: Option<String>,
    /// Only events of this sandbox.
    sandbox: Option<String>,
    /// Only events of this project.
    project: Option<String>,
    /// Only events with a greater id than this one. The header `Last-Event-ID`
    /// takes precedence.
    after: Option<u64>,
    /// Maximum number of events, if they are not streamed; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// List past events, or follow new ones
///
/// The ids of events increase in order. The server keeps events for a week by
/// default (`EVENTS_KEEP`). A request that accepts `text/event-stream` receives
/// events as they happen: those after `Last-Event-ID` or `after`, or only new
/// ones if both are absent. A stream ends after an hour at the latest, and when
/// its key is revoked or expires; reconnect with the id of the last event. If
/// the server stops, the last event of the stream is `stopping`; if the stream
/// fails or its key becomes invalid, it is `error`. Both have no id.
#[utoipa::path(
    get, path = "/api/v1/events", operation_id = "events_list", tag = "events", params(Events),
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
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let last = text(header::HeaderName::from_static("last-event-id"));
    let last = last.map(str::parse).transpose();
    let last =
        last.map_err(|_| Failure::invalid("`Last-Event-ID` must be the id of an event, a number"))?;
    let wanted = EventsQuery {
        kinds: query.kinds,
        subject: query.sandbox.or(query.project),
        after: last.or(query.after),
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
            () = app.stopping.entered(Phase::Draining) => stream::send_last(&other, stopping()).await,
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
fn stopping() -> Encoded {
    let message =
        "the server is stopping; reconnect with the id of the last event as `Last-Event-ID`";
    let data = serde_json::json!({ "message": message });
    let event = SseEvent::default().retry(Duration::from_secs(5));
    Ok(event.event("stopping").data(data.to_string()))
}

/// The last event of a stream that failed. It has no id either.
fn error(failure: &Failure, request_id: &str) -> Encoded {
    let data = serde_json::json!({ "error": failure.body(request_id) });
    Ok(SseEvent::default().event("error").data(data.to_string()))
}

/// Sends events as they happen. Returns the failure that ends the stream, or
/// `None` if the client has disconnected.
async fn send_all(mut following: Following, sender: mpsc::Sender<Vec<Encoded>>) -> Option<Failure> {
    // Shows the client that the stream has begun.
    let begun = SseEvent::default().comment("begun");
    if sender.send(vec![Ok(begun)]).await.is_err() {
        return None;
    }
    loop {
        let events = match following.next().await {
            Ok(events) => events,
            Err(failure) => {
                tracing::warn!(cause = failure.summary(), "a stream of events failed");
                return Some(failure);
            }
        };
        let events = events.iter().map(encode).collect();
        if sender.send(events).await.is_err() {
            return None;
        }
    }
}

fn encode(event: &api::Event) -> Encoded {
    let json = serde_json::to_string(event)?;
    Ok(SseEvent::default()
        .id(event.id.to_string())
        .event(&event.event)
        .data(json))
}
