use elevo_core::SandboxId;
use std::num::NonZeroU32;

use axum::Json;
use axum::body::Body as RawBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use elevo_api as api;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::files::diff::Compared;
use crate::app::requests::once::Once;
use crate::http::answer::{Answer, name_request};
use crate::http::description::Binary;
use crate::http::diffs::WorkspaceDiff;
use crate::http::limits::Class;
use crate::http::request::{Body, MaybeBody, Path, Query, Who};
use crate::http::shared::Shared;
use crate::http::{tar, upload};
use crate::platform::audit;

/// Fork a sandbox into new sandboxes
///
/// All forks start with the files of the sandbox as they were at the same
/// moment, but without its processes. The sandbox is paused during the fork,
/// unless the server stores the changes of the sandbox on btrfs, where a copy
/// needs no pause.
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/fork", operation_id = "sandboxes_fork", tag = "files",
    params(("id" = String, Path)),
    request_body = Option<api::Fork>,
    extensions(("x-elevo" = json!({"audit": "sandbox.forked", "rate": "create"}))),
    responses((status = 201, description = "The forks, and an error for each fork that failed", body = api::Forked))
)]
pub(super) async fn fork(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    once: Once,
    MaybeBody(wish): MaybeBody<api::Fork>,
) -> Answer<(StatusCode, HeaderMap, Json<api::Forked>)> {
    // The rate limit has already counted the request itself as one creation.
    if let Some(more) = wish
        .count
        .and_then(|count| NonZeroU32::new(count.min(50).saturating_sub(1)))
    {
        shared.rates.take(&who, Class::Create, more.get()).1?;
    }
    // The headers count the forks, too.
    let quotas = shared.rates.look(&who, Class::Create).headers();
    let mut forked = shared.app.sandboxes.fork(&who, &id, wish, once).await?;
    name_request(&mut forked.failed);
    let ids = forked.succeeded.iter().map(|made| made.id.as_str());
    audit::detail("sandboxes", ids.collect::<Vec<_>>());
    Ok((StatusCode::CREATED, quotas, Json(forked)))
}

/// Take a snapshot of a sandbox's workspace
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/snapshot", operation_id = "sandboxes_snapshot", tag = "files",
    params(("id" = String, Path)),
    request_body = Option<api::TakeSnapshot>,
    extensions(("x-elevo" = json!({"audit": "sandbox.snapshot"}))),
    responses((status = 201, description = "The snapshot", body = api::SnapshotTaken))
)]
pub(super) async fn snapshot(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    MaybeBody(wish): MaybeBody<api::TakeSnapshot>,
) -> Answer<(StatusCode, Json<api::SnapshotTaken>)> {
    let taken = shared.app.files.snapshot(&who, (&id).into(), wish).await?;
    Ok((StatusCode::CREATED, Json(taken)))
}

/// Restore a workspace to a snapshot
///
/// Changes since the last snapshot of the workspace are discarded.
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/restore", operation_id = "sandboxes_restore", tag = "files", params(("id" = String, Path)),
    request_body = api::Restore,
    extensions(("x-elevo" = json!({"audit": "sandbox.restored"}))),
    responses((status = 200, description = "The sandbox with the restored files", body = api::Sandbox))
)]
pub(super) async fn restore(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    Body(wish): Body<api::Restore>,
) -> Answer<Json<api::Sandbox>> {
    let restored = shared.app.files.restore_sandbox(&who, &id, wish);
    Ok(Json(restored.await?))
}

/// Compare a sandbox's workspace with the snapshot that it started from
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/diff", operation_id = "sandboxes_diff", tag = "files", params(("id" = String, Path), WorkspaceDiff),
    responses(
        (status = 200, description = "The changes as JSON or as a patch, or the numbers of changed lines", content((api::DiffOrStat = "application/json"), (String = "text/x-diff")))
    )
)]
pub(super) async fn diff(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    Query(query): Query<WorkspaceDiff>,
) -> Answer<Compared> {
    let options = query.options()?;
    let from = query.from.as_deref();
    let files = &shared.app.files;
    Ok(files.diff(&who, (&id).into(), from, options).await?)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Place {
    /// Path in the workspace; the root of the workspace by default.
    pub(super) path: Option<String>,
}

/// Download files of a workspace as a tar
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/archive", operation_id = "sandboxes_download", tag = "files", params(("id" = String, Path), Place),
    extensions(("x-elevo" = json!({"audit": "files.exported"}))),
    responses((status = 200, description = "A tar archive of the files", content_type = "application/x-tar", body = Binary))
)]
pub(super) async fn archive_out(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    Query(place): Query<Place>,
) -> Answer<Response> {
    let (pipe, written) = tar::pipe();
    let path = place.path.unwrap_or_default();
    let packing = shared
        .app
        .files
        .archive_out(&who, (&id).into(), &path, pipe)
        .await?;
    written.answer(packing).await
}

/// Unpack a tar (plain, gzip or zstd) into a workspace
#[utoipa::path(
    put, path = "/api/v1/sandboxes/{id}/archive", operation_id = "sandboxes_upload", tag = "files", params(("id" = String, Path), Place),
    request_body(content = Binary, content_type = "application/x-tar"),
    extensions(("x-elevo" = json!({"audit": "files.imported", "body": "archive"}))),
    responses((status = 204, description = "The files were written"))
)]
pub(super) async fn archive_in(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    Query(place): Query<Place>,
    body: RawBody,
) -> Answer<StatusCode> {
    let path = place.path.unwrap_or_default();
    who.needs(api::Scope::Files)?;
    let archive = upload::receive(&shared, &who, body).await?;
    shared
        .app
        .files
        .archive_in(&who, (&id).into(), &path, archive)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
