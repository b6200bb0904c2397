use axum::Json;
use axum::extract::State;
use elevo_api as api;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::answer::Answer;
use crate::http::limits::Class;
use crate::http::request::Who;
use crate::http::route_rules::{BODY, PATCH_BODY};
use crate::http::shared::Shared;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(me))
        .routes(routes!(info))
}

/// Get the key of the request, and what it may do
///
/// Needs a valid key, but no scope.
#[utoipa::path(
    get, path = "/api/v1/me", operation_id = "me_get", tag = "keys",
    responses((status = 200, description = "The key, its limits and what is left of them", body = api::Me))
)]
pub(super) async fn me(State(shared): State<Shared>, Who(who): Who) -> Answer<Json<api::Me>> {
    let mut me = shared.app.keys.me(&who).await?;
    let left = |class| shared.rates.look(&who, class).left();
    me.left.creates = left(Class::Create);
    me.left.commands = left(Class::Command);
    me.left.requests = left(Class::Other);
    Ok(Json(me))
}

/// Get the version, the features and the limits of the server
///
/// Needs a valid key, but no scope.
#[utoipa::path(
    get, path = "/api/v1/info", operation_id = "info_get", tag = "system",
    responses((status = 200, description = "The server", body = api::Info))
)]
pub(super) async fn info(State(shared): State<Shared>, Who(_): Who) -> Json<api::Info> {
    Json(shared.app.system.info(BODY as u64, PATCH_BODY as u64))
}
