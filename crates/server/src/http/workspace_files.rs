//! Requests about the files of a workspace, with or without a sandbox.

use std::num::NonZeroU32;

use axum::Json;
use axum::body::Body as RawBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use elevo_api as api;
use elevo_core::WorkspaceId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::files::diff::Compared;
use crate::app::requests::once::Once;
use crate::http::answer::Answer;
use crate::http::description::Binary;
use crate::http::diffs::WorkspaceDiff;
use crate::http::files::Place;
use crate::http::limits::Class;
use crate::http::request::{Body, MaybeBody, Path, Query, Who};
use crate::http::shared::Shared;
use crate::http::{tar, upload};
use crate::platform::audit;

/// Routes about the files of a workspace.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(diff))
        .routes(routes!(snapshot))
        .routes(routes!(fork))
        .routes(routes!(restore))
        .routes(routes!(archive_out, archive_in))
        .routes(routes!(park))
        .routes(routes!(resume))
}

/// Compare a workspace with the snapshot that it started from
#[utoipa::path(
    get, path = "/api/v1/workspaces/{id}/diff", operation_id = "workspaces_diff", tag = "workspaces",
    params(("id" = String, Path), WorkspaceDiff),
    responses((status = 200, description = "The changes as JSON or as a patch, or the numbers of changed lines", content((api::DiffOrStat = "application/json"), (String = "text/x-diff"))))
)]
pub(super) async fn diff(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Query(query): Query<WorkspaceDiff>,
) -> Answer<Compared> {
    let options = query.options()?;
    let from = query.from.as_deref();
    let files = &shared.app.files;
    Ok(files.diff(&who, (&id).into(), from, options).await?)
}

/// Take a snapshot of a workspace
///
/// If a sandbox uses the workspace, its processes are paused.
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/snapshot", operation_id = "workspaces_snapshot", tag = "workspaces",
    params(("id" = String, Path)),
    request_body = Option<api::TakeSnapshot>,
    extensions(("x-elevo" = json!({"audit": "workspace.snapshot"}))),
    responses((status = 201, description = "The snapshot", body = api::SnapshotTaken))
)]
pub(super) async fn snapshot(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    MaybeBody(wish): MaybeBody<api::TakeSnapshot>,
) -> Answer<(StatusCode, Json<api::SnapshotTaken>)> {
    let taken = shared.app.files.snapshot(&who, (&id).into(), wish).await?;
    Ok((StatusCode::CREATED, Json(taken)))
}

/// Fork a workspace into new workspaces
///
/// All forks have the files of the workspace as they were at the same moment. A
/// fork of a workspace on a project has the same project, agent, rights and base.
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/fork", operation_id = "workspaces_fork", tag = "workspaces",
    params(("id" = String, Path)),
    request_body = Option<api::ForkWorkspace>,
    extensions(("x-elevo" = json!({"audit": "workspace.forked", "rate": "create"}))),
    responses((status = 201, description = "The forks, and an error for each fork that failed", body = api::WorkspacesForked))
)]
pub(super) async fn fork(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    once: Once,
    MaybeBody(wish): MaybeBody<api::ForkWorkspace>,
) -> Answer<(StatusCode, HeaderMap, Json<api::WorkspacesForked>)> {
    // The rate limit has already counted the request itself as one creation.
    let count = wish.count.unwrap_or(1).min(50);
    if let Some(more) = NonZeroU32::new(count.saturating_sub(1)) {
        shared.rates.take(&who, Class::Create, more.get()).1?;
    }
    // The headers count the forks, too.
    let quotas = shared.rates.look(&who, Class::Create).headers();
    let forked = shared.app.workspaces.fork(&who, &id, wish, once).await?;
    let ids = forked.succeeded.iter().map(|made| made.id.as_str());
    audit::detail("workspaces", ids.collect::<Vec<_>>());
    Ok((StatusCode::CREATED, quotas, Json(forked)))
}

/// Restore a workspace to a snapshot
///
/// Changes since the last snapshot of the workspace are discarded.
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/restore", operation_id = "workspaces_restore", tag = "workspaces",
    params(("id" = String, Path)),
    request_body = api::Restore,
    extensions(("x-elevo" = json!({"audit": "workspace.restored"}))),
    responses((status = 200, description = "The workspace with the restored files", body = api::Workspace))
)]
pub(super) async fn restore(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Body(wish): Body<api::Restore>,
) -> Answer<Json<api::Workspace>> {
    let restored = shared.app.files.restore_workspace(&who, &id, wish);
    Ok(Json(restored.await?))
}

/// Download files of a workspace as a tar
#[utoipa::path(
    get, path = "/api/v1/workspaces/{id}/archive", operation_id = "workspaces_download", tag = "workspaces",
    params(("id" = String, Path), Place),
    extensions(("x-elevo" = json!({"audit": "files.exported"}))),
    responses((status = 200, description = "A tar archive of the files", content_type = "application/x-tar", body = Binary))
)]
pub(super) async fn archive_out(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Query(place): Query<Place>,
) -> Answer<Response> {
    let (pipe, written) = tar::pipe();
    let path = place.path.unwrap_or_default();
    let files = &shared.app.files;
    let packing = files.archive_out(&who, (&id).into(), &path, pipe).await?;
    written.answer(packing).await
}

/// Unpack a tar (plain, gzip or zstd) into a workspace
#[utoipa::path(
    put, path = "/api/v1/workspaces/{id}/archive", operation_id = "workspaces_upload", tag = "workspaces",
    params(("id" = String, Path), Place),
    request_body(content = Binary, content_type = "application/x-tar"),
    extensions(("x-elevo" = json!({"audit": "files.imported", "body": "archive"}))),
    responses((status = 204, description = "The files were written"))
)]
pub(super) async fn archive_in(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Query(place): Query<Place>,
    body: RawBody,
) -> Answer<StatusCode> {
    let path = place.path.unwrap_or_default();
    who.needs(api::Scope::Files)?;
    let archive = upload::receive(&shared, &who, body).await?;
    let files = &shared.app.files;
    files.archive_in(&who, (&id).into(), &path, archive).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Park a workspace: move its files into the store and delete its directory
///
/// Fails with `WORKSPACE_IN_USE` if a sandbox uses the workspace. The workspace is
/// kept until it is resumed or deleted.
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/park", operation_id = "workspaces_park", tag = "workspaces",
    params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "workspace.parked"}))),
    responses((status = 200, description = "The parked workspace", body = api::Workspace))
)]
pub(super) async fn park(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
) -> Answer<Json<api::Workspace>> {
    Ok(Json(shared.app.workspaces.park(&who, &id).await?))
}

/// Resume a parked workspace: create its directory again
///
/// The workspace then has no sandbox. `workspace.existing` in a request to create
/// a sandbox resumes a workspace in a sandbox.
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/resume", operation_id = "workspaces_resume", tag = "workspaces",
    params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "workspace.resumed"}))),
    responses((status = 200, description = "The workspace with its directory", body = api::Workspace))
)]
pub(super) async fn resume(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
) -> Answer<Json<api::Workspace>> {
    Ok(Json(shared.app.workspaces.resume(&who, &id).await?))
}
