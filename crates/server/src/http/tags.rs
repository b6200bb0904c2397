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

/// Tag a version, so that its content is kept
#[utoipa::path(
    post, path = "/api/v1/projects/{id}/tags", operation_id = "tags_set", tag = "projects", params(("id" = String, Path)),
    request_body = api::SetTag,
    extensions(("x-elevo" = json!({"audit": "project.tagged"}))),
    responses((status = 201, description = "The tag", body = api::Tag))
)]
pub(super) async fn set(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    once: Once,
    Body(wish): Body<api::SetTag>,
) -> Answer<(StatusCode, Json<api::Tag>)> {
    let set = shared.app.projects.set_tag(&who, &id, wish, &once).await?;
    Ok((StatusCode::CREATED, Json(set)))
}

/// List the tags of a project, ordered by name
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/tags", operation_id = "tags_list", tag = "projects", params(("id" = String, Path), Page),
    responses((status = 200, description = "A page of tags, ordered by name", body = api::TagPage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<Page>,
) -> Answer<Json<api::TagPage>> {
    Ok(Json(
        shared
            .app
            .projects
            .list_tags(&who, &id, query.read()?)
            .await?,
    ))
}

/// Delete a tag
///
/// The content of the version is then subject to the project's retention.
#[utoipa::path(
    delete, path = "/api/v1/projects/{id}/tags/{name}", operation_id = "tags_delete", tag = "projects",
    params(("id" = String, Path), ("name" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "project.untagged"}))),
    responses((status = 204, description = "The tag was deleted"))
)]
pub(super) async fn remove(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, name)): Path<(ProjectRef, String)>,
) -> Answer<StatusCode> {
    shared.app.projects.remove_tag(&who, &id, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
