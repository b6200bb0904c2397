use axum::Json;
use axum::body::Body as RawBody;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::HeaderMap;
use axum::response::Response;
use elevo_api as api;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::Shared;
use crate::http::answer::Answer;
use crate::http::files::reader;
use crate::http::request::{Body, Path, Query, Who};
use crate::http::tar;
use crate::http::workspaces::request_name;

/// The size of a request with a patch or files: what `GET …/diff` can answer as
/// a patch fits, also where JSON or base64 makes it longer.
const BODY: usize = 32 << 20;

/// Routes that bring files into projects and out of them.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    let large = OpenApiRouter::new()
        .routes(routes!(apply))
        .layer(DefaultBodyLimit::max(BODY));
    OpenApiRouter::new()
        .merge(large)
        .routes(routes!(revert))
        .routes(routes!(import))
        .routes(routes!(archive_out, archive_in))
}

/// Change files of a project without a workspace, by a patch or as they shall be
///
/// All changes were made to `base`; what has landed since is merged with them.
/// A patch fits to the byte, or is refused with the file and the hunk. What can
/// land lands, the rest is held for review; `atomic` is all or nothing.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/apply", tag = "projects",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Repeating the request with the same key changes nothing twice")),
    request_body = api::Apply,
    responses((status = 200, body = api::MergeResult), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn apply(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(wish): Body<api::Apply>,
) -> Answer<Json<api::MergeResult>> {
    let request = request_name(&headers);
    Ok(Json(shared.app.apply(&who, &id, wish, request).await?))
}

/// Take back what a step has changed, or make a path what it was
///
/// What others have changed since stays, or is held for review where it is in
/// the way.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/revert", tag = "projects",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Repeating the request with the same key changes nothing twice")),
    request_body = api::Revert,
    responses((status = 200, body = api::MergeResult), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn revert(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(wish): Body<api::Revert>,
) -> Answer<Json<api::MergeResult>> {
    let request = request_name(&headers);
    Ok(Json(shared.app.revert(&who, &id, wish, request).await?))
}

/// Replace files of a project by a directory, a git repository or a snapshot
///
/// `.git` never comes in, and `.gitignore` leaves nothing out. With `history`
/// each commit that first parents lead to becomes a step of the log; commits
/// that change nothing do not.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/import", tag = "projects",
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "Repeating the request with the same key imports nothing twice")),
    request_body = api::ImportSource,
    responses((status = 200, body = api::ImportResult), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn import(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(wish): Body<api::ImportSource>,
) -> Answer<Json<api::ImportResult>> {
    let request = request_name(&headers);
    let imported = shared.app.import_into(&who, &id, wish, request).await?;
    Ok(Json(imported))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// The file or directory; the whole project by default.
    path: Option<String>,
    /// A snapshot that is or was the head; the head by default.
    snapshot: Option<String>,
}

/// Get files of a project as a tar, as they are or were
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/archive", tag = "projects", params(("id" = String, Path), Which),
    responses((status = 200, content_type = "application/x-tar", body = Vec<u8>), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn archive_out(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    Query(which): Query<Which>,
) -> Answer<Response> {
    let (pipe, written) = tar::pipe();
    let path = which.path.unwrap_or_default();
    let at = which.snapshot.as_deref();
    let packing = shared.app.pack_project(&who, &id, &path, at, pipe).await?;
    written.answer(packing).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Where {
    /// The directory that is replaced; the whole project by default.
    path: Option<String>,
}

/// Replace files of a project by what is in a tar, plain or compressed by gzip or zstd
#[utoipa::path(
    put, path = "/api/v1/projects/{id}/archive", tag = "projects",
    params(("id" = String, Path), Where, ("Idempotency-Key" = Option<String>, Header, description = "Repeating the request with the same key imports nothing twice")),
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 200, body = api::ImportResult), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn archive_in(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    Query(place): Query<Where>,
    headers: HeaderMap,
    body: RawBody,
) -> Answer<Json<api::ImportResult>> {
    let (path, request) = (place.path.unwrap_or_default(), request_name(&headers));
    let app = &shared.app;
    let imported = app.unpack_into(&who, &id, &path, reader(body), request);
    Ok(Json(imported.await?))
}
