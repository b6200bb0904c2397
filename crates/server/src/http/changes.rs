use axum::Json;
use axum::body::Body as RawBody;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use elevo_api as api;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::projects::project_ref::ProjectRef;
use crate::app::requests::once::Once;
use crate::http::answer::{Answer, name_request};
use crate::http::description::Binary;
use crate::http::request::{Body, Path, Query, Who};
use crate::http::route_rules::PATCH_BODY;
use crate::http::shared::Shared;
use crate::http::{tar, upload};
use crate::platform::audit;

/// Routes that change files of a project without a workspace, and the download
/// of a project's archive.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    let large = OpenApiRouter::new()
        .routes(routes!(apply))
        .layer(DefaultBodyLimit::max(PATCH_BODY));
    OpenApiRouter::new()
        .merge(large)
        .routes(routes!(merge))
        .routes(routes!(revert))
        .routes(routes!(restore_path))
        .routes(routes!(import))
        .routes(routes!(archive_out, archive_in))
}

/// Change files of a project without a workspace
///
/// The request contains a patch or new states of files. Its changes are
/// relative to `base`, and are merged with everything that landed since. A
/// patch must match the base exactly; otherwise it is rejected, and the error
/// names the file and the hunk. Changes without conflicts land; changes with
/// conflicts are held for review. With `atomic`, either all changes land or
/// none.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/apply", operation_id = "projects_apply", tag = "projects",
    params(("id" = String, Path)),
    request_body = api::Apply,
    extensions(("x-elevo" = json!({"audit": "project.applied", "body": "patch"}))),
    responses((status = 200, description = "The steps that landed, and the conflicts", body = api::MergeResult))
)]
pub(super) async fn apply(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    once: Once,
    Body(wish): Body<api::Apply>,
) -> Answer<Json<api::MergeResult>> {
    Ok(Json(shared.app.changes.apply(&who, &id, wish, once).await?))
}

/// Merge several workspaces into the project
///
/// Without `atomic`, the workspaces are merged in the given order, each as by
/// `POST /workspaces/{id}/merge`, and the response reports the result or the
/// error of each. With `atomic`, all of them land in one transaction: the head
/// moves once, and the history gets a step for each workspace, with its agent.
/// If one of them has a conflict or a change that is not allowed, nothing lands,
/// and `details` of the error names the workspace and the paths. A dry run
/// reports the conflicts of each workspace in its result.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/merge", operation_id = "projects_merge", tag = "projects",
    params(("id" = String, Path)),
    request_body = api::MergeWorkspaces,
    extensions(("x-elevo" = json!({"audit": "project.merged"}))),
    responses((status = 200, description = "The result or the error of each workspace", body = api::WorkspacesMerged))
)]
pub(super) async fn merge(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    once: Once,
    Body(wish): Body<api::MergeWorkspaces>,
) -> Answer<Json<api::WorkspacesMerged>> {
    let named = wish.workspaces.iter().map(|name| audit::cut(name));
    audit::detail("workspaces", named.collect::<Vec<_>>());
    let merged = shared.app.merges.merge_all(&who, &id, wish, once);
    let mut merged = merged.await?;
    name_request(&mut merged.failed);
    Ok(Json(merged))
}

/// Revert the changes of a step, everywhere or at one path
///
/// Changes of later steps are kept. Where a later change conflicts with the
/// revert, the path is held for review.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/revert", operation_id = "projects_revert", tag = "projects",
    params(("id" = String, Path)),
    request_body = api::Revert,
    extensions(("x-elevo" = json!({"audit": "project.reverted"}))),
    responses((status = 200, description = "The steps that landed, and the conflicts", body = api::MergeResult))
)]
pub(super) async fn revert(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    once: Once,
    Body(wish): Body<api::Revert>,
) -> Answer<Json<api::MergeResult>> {
    Ok(Json(
        shared.app.changes.revert(&who, &id, wish, once).await?,
    ))
}

/// Restore a path from an earlier version
///
/// Undoes all changes to the path since that version. The rest of the project
/// does not change. To undo a single step, use `revert`.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/restore", operation_id = "projects_restore", tag = "projects",
    params(("id" = String, Path)),
    request_body = api::RestorePath,
    extensions(("x-elevo" = json!({"audit": "project.restored"}))),
    responses((status = 200, description = "The steps that landed, and the conflicts", body = api::MergeResult))
)]
pub(super) async fn restore_path(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    once: Once,
    Body(wish): Body<api::RestorePath>,
) -> Answer<Json<api::MergeResult>> {
    let restored = shared
        .app
        .changes
        .restore_path(&who, &id, wish, once)
        .await?;
    Ok(Json(restored))
}

/// Replace files of a project with a directory, a git repository or a snapshot
///
/// Entries named `.git` or `.elevo` are never imported. An import of a
/// directory also skips the paths that the directory's `.gitignore` files name,
/// unless the project already has them or the project's policy sets `gitignore`
/// to `false`. With `history`, each commit of the first-parent history becomes
/// a step of the log, except commits that change nothing.
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/import", operation_id = "projects_import", tag = "projects",
    params(("id" = String, Path)),
    request_body = api::ImportSource,
    extensions(("x-elevo" = json!({"audit": "project.imported"}))),
    responses((status = 200, description = "The imported steps", body = api::ImportResult))
)]
pub(super) async fn import(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    once: Once,
    Body(wish): Body<api::ImportSource>,
) -> Answer<Json<api::ImportResult>> {
    if wish.dry_run {
        crate::platform::audit::detail("dry_run", true);
    }
    let imported = shared
        .app
        .changes
        .import_into(&who, &id, wish, once)
        .await?;
    Ok(Json(imported))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// The file or directory; the whole project by default.
    path: Option<String>,
    /// The id of the current or an earlier head, or the name of a tag; the
    /// current head by default.
    snapshot: Option<String>,
}

/// Download files of a version of a project as a tar
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/archive", operation_id = "projects_download", tag = "projects", params(("id" = String, Path), Which),
    extensions(("x-elevo" = json!({"audit": "project.exported"}))),
    responses((status = 200, description = "A tar archive of the files", content_type = "application/x-tar", body = Binary))
)]
pub(super) async fn archive_out(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(which): Query<Which>,
) -> Answer<Response> {
    let (pipe, written) = tar::pipe();
    let path = which.path.unwrap_or_default();
    let at = which.snapshot.as_deref();
    let files = shared.app.projects.files(&who, &id, at).await?;
    written.answer(files.pack(&path, pipe).await?).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Where {
    /// The directory to replace; the whole project by default.
    path: Option<String>,
    /// Whether to report the result without moving the head.
    #[serde(default, rename = "dryRun")]
    dry_run: bool,
}

/// Replace files of a project with the content of a tar (plain, gzip or zstd)
#[utoipa::path(
    put, path = "/api/v1/projects/{id}/archive", operation_id = "projects_upload", tag = "projects",
    params(("id" = String, Path), Where),
    request_body(content = Binary, content_type = "application/x-tar"),
    extensions(("x-elevo" = json!({"audit": "project.imported", "body": "archive"}))),
    responses((status = 200, description = "The imported step", body = api::ImportResult))
)]
pub(super) async fn archive_in(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(place): Query<Where>,
    once: Once,
    body: RawBody,
) -> Answer<Json<api::ImportResult>> {
    let path = place.path.unwrap_or_default();
    let app = &shared.app;
    if place.dry_run {
        crate::platform::audit::detail("dry_run", true);
    }
    let into = (&*path, place.dry_run);
    who.needs(api::Scope::ProjectsWrite)?;
    let archive = upload::receive(&shared, &who, body).await?;
    let imported = app.changes.unpack_into(&who, &id, into, archive, once);
    Ok(Json(imported.await?))
}
