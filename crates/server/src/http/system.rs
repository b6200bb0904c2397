use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use elevo_api as api;

use crate::http::answer::Answer;
use crate::http::request::{MaybeBody, Who};
use crate::http::shared::Shared;

/// Get statistics of the server
#[utoipa::path(
    get, path = "/api/v1/stats", operation_id = "system_stats", tag = "system",
    responses((status = 200, description = "The figures of the server", body = api::SystemStats))
)]
pub(super) async fn stats(
    State(shared): State<Shared>,
    Who(who): Who,
) -> Answer<Json<api::SystemStats>> {
    Ok(Json(shared.app.system.stats(&who).await?))
}

/// Get the status of garbage collection
#[utoipa::path(
    get, path = "/api/v1/gc", operation_id = "gc_status", tag = "system",
    responses((status = 200, description = "The running garbage collection, and the last one", body = api::GcStatus))
)]
pub(super) async fn gc_status(
    State(shared): State<Shared>,
    Who(who): Who,
) -> Answer<Json<api::GcStatus>> {
    Ok(Json(shared.app.garbage.status(&who).await?))
}

/// Collect garbage
///
/// Deletes expired sandboxes, expired workspaces, containers and workspaces
/// without a row in the catalog, and objects that nothing refers to. Responds
/// when the collection is complete; `GET` reports its progress. Only one
/// collection can run at a time.
#[utoipa::path(
    post, path = "/api/v1/gc", operation_id = "gc_run", tag = "system",
    request_body = Option<api::Gc>,
    extensions(("x-elevo" = json!({"audit": "garbage.collected", "disk": "frees"}))),
    responses((status = 200, description = "The result of the garbage collection", body = api::GcResult))
)]
pub(super) async fn gc(
    State(shared): State<Shared>,
    Who(who): Who,
    MaybeBody(wish): MaybeBody<api::Gc>,
) -> Answer<Json<api::GcResult>> {
    Ok(Json(shared.app.garbage.collect_for(&who, wish).await?))
}

/// Check that the process is alive
#[utoipa::path(get, path = "/health", operation_id = "system_health", tag = "system", security(()), responses((status = 200, description = "The server responds", body = api::Health)))]
pub(super) async fn health() -> Json<api::Health> {
    Json(api::Health {
        status: "ok".into(),
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// Check whether the server is ready
#[utoipa::path(
    get, path = "/ready", operation_id = "system_ready", tag = "system", security(()),
    responses((status = 200, description = "The server is ready", body = api::Ready), (status = 503, description = "The server is not ready", body = api::Ready))
)]
pub(super) async fn ready(State(shared): State<Shared>) -> (StatusCode, Json<api::Ready>) {
    let ready = shared.app.system.ready().await;
    let status = match ready.ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(ready))
}

pub(super) async fn metrics(State(shared): State<Shared>) -> Response {
    if let Ok(counts) = shared.app.system.counts().await {
        crate::platform::metrics::sandboxes(&counts);
    }
    crate::platform::metrics::agents(shared.app.links.count());
    crate::platform::metrics::machine(shared.app.system.disk_used());
    let (is_writable, _) = shared.app.system.probe_store().await;
    crate::platform::metrics::databases(is_writable, shared.app.system.catalog_log_bytes());
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, crate::platform::metrics::render()).into_response()
}

pub(super) async fn openapi() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, crate::http::openapi_json()).into_response()
}
