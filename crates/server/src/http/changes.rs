use axum::Json;
use axum::body::Body as RawBody;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use elevo_api as api;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Once;
use crate::http::Shared;
use crate::http::answer::Answer;
use crate::http::request::{Body, Path, Query, Who};
use crate::http::{tar, upload};

/// The size of a request with a patch or files: what `GET …/diff` can answer as
/// a patch fits, also where JSON or base64 makes it longer.
pub(super) const BODY: usize = 32 << 20;

/// Routes that bring files into projects and out of them.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    let large = OpenApiRouter::new()
        .routes(routes!(apply))
        .layer(DefaultBodyLimit::max(BODY));
    OpenApiRouter::new()
        .merge(large)
        .routes(routes!(revert))
        .routes(routes!(restore_path))
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
    params(("id" = String, Path)),
    request_body = api::Apply,
    responses((status = 200, body = api::MergeResult), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn apply(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    once: Once,
    Body(wish): Body<api::Apply>,
) -> Answer<Json<api::MergeResult>> {
    Ok(Json(shared.app.apply(&who, &id, wish, once).await?))
}

/// Undo what a step changed, all of it or at one path
///
/// What others have changed since stays, or is held for review where it is in
/// the way.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/revert", tag = "projects",
    params(("id" = String, Path)),
    request_body = api::Revert,
    responses((status = 200, body = api::MergeResult), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn revert(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    once: Once,
    Body(wish): Body<api::Revert>,
) -> Answer<Json<api::MergeResult>> {
    Ok(Json(shared.app.revert(&who, &id, wish, once).await?))
}

/// Make a path what it was in an earlier version
///
/// What has changed there since is undone, whichever step changed it; the rest
/// of the project stays. To undo one step, use `revert`.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/restore", tag = "projects",
    params(("id" = String, Path)),
    request_body = api::RestorePath,
    responses((status = 200, body = api::MergeResult), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn restore_path(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    once: Once,
    Body(wish): Body<api::RestorePath>,
) -> Answer<Json<api::MergeResult>> {
    let restored = shared.app.restore_path(&who, &id, wish, once).await?;
    Ok(Json(restored))
}

/// Replace files of a project by a directory, a git repository or a snapshot
///
/// Names `.git` and `.elevo` never come in. Of a directory, neither does what
/// its `.gitignore` files name, unless the project has it already or its policy
/// has `gitignore` `false`. With `history` each commit that first parents lead
/// to becomes a step of the log; commits that change nothing do not.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/import", tag = "projects",
    params(("id" = String, Path)),
    request_body = api::ImportSource,
    responses((status = 200, body = api::ImportResult), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn import(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    once: Once,
    Body(wish): Body<api::ImportSource>,
) -> Answer<Json<api::ImportResult>> {
    let imported = shared.app.import_into(&who, &id, wish, once).await?;
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
    /// Whether only to say what would happen.
    #[serde(default, rename = "dryRun")]
    dry_run: bool,
}

/// Replace files of a project by what is in a tar, plain or compressed by gzip or zstd
#[utoipa::path(
    put, path = "/api/v1/projects/{id}/archive", tag = "projects",
    params(("id" = String, Path), Where),
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 200, body = api::ImportResult), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn archive_in(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    Query(place): Query<Where>,
    once: Once,
    body: RawBody,
) -> Answer<Json<api::ImportResult>> {
    let path = place.path.unwrap_or_default();
    let app = &shared.app;
    let into = (&*path, place.dry_run);
    who.needs(api::Scope::ProjectsWrite)?;
    let archive = upload::receive(&shared, &who, body).await?;
    let imported = app.unpack_into(&who, &id, into, archive, once);
    Ok(Json(imported.await?))
}
