use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use elevo_api as api;
use elevo_core::WebhookId;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::events::webhooks::DeliveriesQuery;
use crate::app::requests::once::Once;
use crate::http::answer::Answer;
use crate::http::request::{Body, Path, Query, Who};
use crate::http::shared::Shared;

/// Create a webhook, which delivers events by HTTP
///
/// The server sends each event as a `POST` request. The body is the event in
/// JSON, as in the response of `GET /api/v1/events`. The headers are
/// `X-Webhook-Event` (the kind of the event), `X-Webhook-Id` (the id of the
/// event), `X-Webhook-Timestamp` (the time of the request, in milliseconds
/// since 1970) and, if the webhook has a secret, `X-Webhook-Signature`
/// (`sha256=` and the HMAC of the body in hexadecimal digits). A delivery
/// without a 2xx response is retried, so an event may arrive more than once.
/// Events of one sandbox or project arrive in order. The server sends nothing
/// to loopback or private addresses, unless `WEBHOOK_ALLOW_PRIVATE` allows it.
#[utoipa::path(
    post, path = "/api/v1/webhooks", operation_id = "webhooks_create", tag = "events", request_body = api::CreateWebhook,
    extensions(("x-elevo" = json!({"audit": "webhook.added"}))),
    responses((status = 201, description = "The webhook with its secret", body = api::Webhook))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    Who(who): Who,
    once: Once,
    Body(wish): Body<api::CreateWebhook>,
) -> Answer<(StatusCode, Json<api::Webhook>)> {
    let made = shared.app.webhooks.add(&who, wish, &once).await?;
    crate::platform::audit::about("webhook_id", made.id.as_str());
    Ok((StatusCode::CREATED, Json(made)))
}

/// List webhooks
#[utoipa::path(
    get, path = "/api/v1/webhooks", operation_id = "webhooks_list", tag = "events",
    responses((status = 200, description = "The webhooks of the tenant", body = api::WebhookList))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
) -> Answer<Json<api::WebhookList>> {
    Ok(Json(shared.app.webhooks.list(&who).await?))
}

/// Delete a webhook with its pending deliveries
#[utoipa::path(
    delete, path = "/api/v1/webhooks/{id}", operation_id = "webhooks_delete", tag = "events", params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "webhook.removed"}))),
    responses((status = 204, description = "The webhook was deleted"))
)]
pub(super) async fn remove(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WebhookId>,
) -> Answer<StatusCode> {
    shared.app.webhooks.remove(&who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Deliveries {
    /// Only deliveries in this state: `pending`, `delivered` or `failed`.
    state: Option<String>,
    /// Only deliveries of events with a smaller id than this one.
    before: Option<u64>,
    /// Maximum number of deliveries; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// List the deliveries of a webhook
#[utoipa::path(
    get, path = "/api/v1/webhooks/{id}/deliveries", operation_id = "webhooks_deliveries", tag = "events",
    params(("id" = String, Path), Deliveries),
    responses((status = 200, description = "A page of deliveries, newest first", body = api::DeliveryPage))
)]
pub(super) async fn deliveries(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WebhookId>,
    Query(query): Query<Deliveries>,
) -> Answer<Json<api::DeliveryPage>> {
    let query = DeliveriesQuery {
        state: query.state,
        before: query.before,
        limit: query.limit,
    };
    Ok(Json(
        shared.app.webhooks.deliveries(&who, &id, &query).await?,
    ))
}

/// Deliver an event again
#[utoipa::path(
    post, path = "/api/v1/webhooks/{id}/deliveries/{event}/replay", operation_id = "webhooks_replay", tag = "events",
    params(("id" = String, Path), ("event" = u64, Path)),
    extensions(("x-elevo" = json!({"audit": "webhook.replayed", "disk": "spared"}))),
    responses((status = 202, description = "The event will be sent again"))
)]
pub(super) async fn replay(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, event)): Path<(WebhookId, u64)>,
) -> Answer<StatusCode> {
    shared.app.webhooks.replay(&who, &id, event).await?;
    Ok(StatusCode::ACCEPTED)
}
