use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use elevo_api as api;

use crate::app::projects::project_ref::ProjectRef;
use crate::app::requests::once::Once;
use crate::http::answer::Answer;
use crate::http::page::Page;
use crate::http::request::{Body, Path, Query, Who};
use crate::http::shared::Shared;

/// Create a project
#[utoipa::path(
    post, path = "/api/v1/projects", operation_id = "projects_create", tag = "projects",
    request_body = api::CreateProject,
    extensions(("x-elevo" = json!({"audit": "project.created"}))),
    responses((status = 201, description = "The project", body = api::Project))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    Who(who): Who,
    once: Once,
    Body(wish): Body<api::CreateProject>,
) -> Answer<(StatusCode, Json<api::Project>)> {
    let made = shared.app.projects.create(&who, wish, once).await?;
    crate::platform::audit::about("project_id", made.id.as_str());
    Ok((StatusCode::CREATED, Json(made)))
}

/// List projects, newest first
#[utoipa::path(
    get, path = "/api/v1/projects", operation_id = "projects_list", tag = "projects", params(Page),
    responses((status = 200, description = "A page of projects, newest first", body = api::ProjectPage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<Page>,
) -> Answer<Json<api::ProjectPage>> {
    Ok(Json(shared.app.projects.list(&who, query.read()?).await?))
}

/// Get a project, by id or name
#[utoipa::path(
    get, path = "/api/v1/projects/{id}", operation_id = "projects_get", tag = "projects", params(("id" = String, Path)),
    responses((status = 200, description = "The project", body = api::Project))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
) -> Answer<Json<api::Project>> {
    Ok(Json(shared.app.projects.get(&who, &id).await?))
}

/// Change the name, description or retention of a project
#[utoipa::path(
    patch, path = "/api/v1/projects/{id}", operation_id = "projects_change", tag = "projects", params(("id" = String, Path)),
    request_body = api::ChangeProject,
    extensions(("x-elevo" = json!({"audit": "project.changed"}))),
    responses((status = 200, description = "The changed project", body = api::Project))
)]
pub(super) async fn change(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Body(wish): Body<api::ChangeProject>,
) -> Answer<Json<api::Project>> {
    Ok(Json(shared.app.projects.change(&who, &id, wish).await?))
}

/// Delete a project with its workspaces, history and reviews
#[utoipa::path(
    delete, path = "/api/v1/projects/{id}", operation_id = "projects_delete", tag = "projects", params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "project.deleted"}))),
    responses((status = 204, description = "The project was deleted"))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
) -> Answer<StatusCode> {
    shared.app.projects.delete(&who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Get the policy of a project
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/policy", operation_id = "projects_policy", tag = "projects", params(("id" = String, Path)),
    responses((status = 200, description = "The policy", body = api::ProjectPolicy))
)]
pub(super) async fn policy(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
) -> Answer<Json<api::ProjectPolicy>> {
    Ok(Json(shared.app.projects.policy(&who, &id).await?))
}

/// Set the policy of a project
///
/// Existing workspaces keep their content. Merges follow the new policy
/// immediately.
#[utoipa::path(
    put, path = "/api/v1/projects/{id}/policy", operation_id = "projects_set_policy", tag = "projects", params(("id" = String, Path)),
    request_body = api::SetPolicy,
    extensions(("x-elevo" = json!({"audit": "project.policy", "disk": "spared"}))),
    responses((status = 200, description = "The new policy", body = api::ProjectPolicy))
)]
pub(super) async fn set_policy(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    once: Once,
    Body(wish): Body<api::SetPolicy>,
) -> Answer<Json<api::ProjectPolicy>> {
    Ok(Json(
        shared
            .app
            .projects
            .set_policy(&who, &id, wish, once)
            .await?,
    ))
}
