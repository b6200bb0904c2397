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
use crate::http::page::Page;
use crate::http::request::{Body, MaybeBody, Path, Query, Who};
use crate::http::shared::Shared;

/// Create a webhook, which delivers events by HTTP
///
/// The server sends each event as a `POST` request. The body is the event in
/// JSON, as in the response of `GET /api/v1/events`. A delivery without a 2xx
/// response is retried, so an event may arrive more than once. Events of one
/// sandbox or project arrive in order. The server sends nothing to loopback or
/// private addresses, unless `WEBHOOK_ALLOW_PRIVATE` allows it.
///
/// The headers follow Standard Webhooks (https://www.standardwebhooks.com):
/// `webhook-id` (the same in all attempts to send one event to one webhook),
/// `webhook-timestamp` (the time of the attempt, in seconds since 1970) and, if
/// the webhook has a secret, `webhook-signature` (`v1,` and the HMAC-SHA256 of
/// `ID.TIMESTAMP.BODY` in base64; two of them, separated by a space, during a
/// rotation). Further headers are `X-Webhook-Event` (the kind of the event),
/// `X-Webhook-Id` (the id of the event), `X-Webhook-Timestamp` (the time of the
/// request, in milliseconds since 1970) and, if the webhook has a secret,
/// `X-Webhook-Signature` (`sha256=` and the HMAC-SHA256 of the body in
/// hexadecimal digits, with the newest secret).
#[utoipa::path(
    post, path = "/api/v1/webhooks", operation_id = "webhooks_create", tag = "events", request_body = api::CreateWebhook,
    extensions(("x-elevo" = json!({"audit": "webhook.added"}))),
    responses((status = 201, description = "The webhook", body = api::Webhook))
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
    get, path = "/api/v1/webhooks", operation_id = "webhooks_list", tag = "events", params(Page),
    responses((status = 200, description = "A page of webhooks, oldest first", body = api::WebhookPage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<Page>,
) -> Answer<Json<api::WebhookPage>> {
    Ok(Json(shared.app.webhooks.list(&who, query.read()?).await?))
}

/// Get a webhook
#[utoipa::path(
    get, path = "/api/v1/webhooks/{id}", operation_id = "webhooks_get", tag = "events", params(("id" = String, Path)),
    responses((status = 200, description = "The webhook", body = api::Webhook))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WebhookId>,
) -> Answer<Json<api::Webhook>> {
    Ok(Json(shared.app.webhooks.get(&who, &id).await?))
}

/// Change the URL or the kinds of events of a webhook
#[utoipa::path(
    patch, path = "/api/v1/webhooks/{id}", operation_id = "webhooks_change", tag = "events", params(("id" = String, Path)),
    request_body = api::ChangeWebhook,
    extensions(("x-elevo" = json!({"audit": "webhook.changed"}))),
    responses((status = 200, description = "The changed webhook", body = api::Webhook))
)]
pub(super) async fn change(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WebhookId>,
    Body(wish): Body<api::ChangeWebhook>,
) -> Answer<Json<api::Webhook>> {
    Ok(Json(shared.app.webhooks.change(&who, &id, wish).await?))
}

/// Give a webhook a new secret
///
/// For `keepSeconds`, deliveries carry two signatures: by the new secret, then by
/// the present one. Then the present secret is deleted.
#[utoipa::path(
    post, path = "/api/v1/webhooks/{id}/rotate", operation_id = "webhooks_rotate", tag = "events", params(("id" = String, Path)),
    request_body = Option<api::RotateWebhook>,
    extensions(("x-elevo" = json!({"audit": "webhook.rotated", "disk": "spared"}))),
    responses((status = 200, description = "The webhook, with the secret if the server created it", body = api::RotatedWebhook))
)]
pub(super) async fn rotate(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WebhookId>,
    once: Once,
    MaybeBody(wish): MaybeBody<api::RotateWebhook>,
) -> Answer<Json<api::RotatedWebhook>> {
    let rotated = shared.app.webhooks.rotate(&who, &id, wish, &once).await?;
    Ok(Json(rotated))
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
    /// Only deliveries in this state.
    state: Option<api::DeliveryState>,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
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
    let cursor = query.cursor.as_deref().map(str::parse).transpose();
    let query = DeliveriesQuery {
        state: query.state,
        cursor: cursor.map_err(|_| crate::app::pages::not_a_cursor())?,
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
