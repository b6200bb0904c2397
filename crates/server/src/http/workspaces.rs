use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use elevo_api as api;
use elevo_core::WorkspaceId;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::projects::project_ref::ProjectRef;
use crate::app::requests::once::Once;
use crate::app::workspaces::refresh::OnConflict;
use crate::http::answer::Answer;
use crate::http::page::{PAGE, page};
use crate::http::request::{Body, MaybeBody, Path, Query, Who};
use crate::http::shared::Shared;

/// Create a workspace on a project, for an agent outside of sandboxes
///
/// `path` in the response is an ordinary directory on the server's machine.
#[utoipa::path(
    post, path = "/api/v1/workspaces", operation_id = "workspaces_create", tag = "workspaces",
    request_body = api::CreateWorkspace,
    extensions(("x-elevo" = json!({"audit": "workspace.created"}))),
    responses((status = 201, description = "The workspace", body = api::Workspace))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    Who(who): Who,
    once: Once,
    Body(wish): Body<api::CreateWorkspace>,
) -> Answer<(StatusCode, Json<api::Workspace>)> {
    let made = shared.app.workspaces.create(&who, wish, once).await?;
    crate::platform::audit::about("workspace_id", made.id.as_str());
    Ok((StatusCode::CREATED, Json(made)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct List {
    /// Only workspaces on this project, by id or name.
    project: Option<String>,
    /// Only workspaces in this state.
    state: Option<api::WorkspaceState>,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of workspaces; 20 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List all workspaces on projects, and all parked workspaces, newest first
#[utoipa::path(
    get, path = "/api/v1/workspaces", operation_id = "workspaces_list", tag = "workspaces", params(List),
    responses((status = 200, description = "A page of workspaces, newest first", body = api::WorkspacePage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<List>,
) -> Answer<Json<api::WorkspacePage>> {
    let wanted = page(query.cursor, query.limit, PAGE)?;
    let project = query.project.as_deref().map(ProjectRef::from);
    let found = shared
        .app
        .workspaces
        .list(&who, project.as_ref(), query.state, wanted);
    Ok(Json(found.await?))
}

/// Get a workspace
#[utoipa::path(
    get, path = "/api/v1/workspaces/{id}", operation_id = "workspaces_get", tag = "workspaces", params(("id" = String, Path)),
    responses((status = 200, description = "The workspace", body = api::Workspace))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
) -> Answer<Json<api::Workspace>> {
    Ok(Json(shared.app.workspaces.get(&who, &id).await?))
}

/// Delete a workspace and its unmerged changes
#[utoipa::path(
    delete, path = "/api/v1/workspaces/{id}", operation_id = "workspaces_delete", tag = "workspaces", params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "workspace.deleted"}))),
    responses((status = 204, description = "The workspace was deleted"))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
) -> Answer<StatusCode> {
    shared.app.workspaces.delete(&who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Merge the changes of a workspace into its project
///
/// Changes without conflicts land; changes with conflicts are held for review.
/// With `atomic`, either all changes land or none. Changes that landed are
/// durable when the server responds.
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/merge", operation_id = "workspaces_merge", tag = "workspaces",
    params(("id" = String, Path)),
    request_body = Option<api::Merge>,
    extensions(("x-elevo" = json!({"audit": "workspace.merged"}))),
    responses((status = 200, description = "The steps that landed, and the conflicts", body = api::MergeResult))
)]
pub(super) async fn merge(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    once: Once,
    MaybeBody(wish): MaybeBody<api::Merge>,
) -> Answer<Json<api::MergeResult>> {
    let merged = shared.app.merges.merge(&who, &id, wish, once).await?;
    Ok(Json(merged))
}

/// Merge a workspace and delete it
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/complete", operation_id = "workspaces_complete", tag = "workspaces",
    params(("id" = String, Path)),
    request_body = Option<api::Merge>,
    extensions(("x-elevo" = json!({"audit": "workspace.completed", "disk": "spared"}))),
    responses((status = 200, description = "The steps that landed", body = api::MergeResult))
)]
pub(super) async fn complete(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    once: Once,
    MaybeBody(wish): MaybeBody<api::Merge>,
) -> Answer<Json<api::MergeResult>> {
    let done = shared.app.merges.complete(&who, &id, wish, once);
    Ok(Json(done.await?))
}

/// Refresh a workspace with the changes in its project
///
/// Where the workspace and the project changed the same text, the file gets
/// conflict markers: edit the file, then merge. Other conflicting files keep
/// the workspace's version; the next merge holds them for review unless they
/// change before the merge. `conflicts` lists all these paths, and `marked`
/// those with conflict markers.
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/refresh", operation_id = "workspaces_refresh", tag = "workspaces", params(("id" = String, Path)),
    request_body = Option<api::Refresh>,
    extensions(("x-elevo" = json!({"audit": "workspace.refreshed"}))),
    responses((status = 200, description = "The changes that the workspace received", body = api::Refreshed))
)]
pub(super) async fn refresh(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    MaybeBody(wish): MaybeBody<api::Refresh>,
) -> Answer<Json<api::Refreshed>> {
    if wish.dry_run {
        crate::platform::audit::detail("dry_run", true);
    }
    let refreshed = shared
        .app
        .workspaces
        .refresh(&who, &id, wish, OnConflict::Leave);
    Ok(Json(refreshed.await?))
}
