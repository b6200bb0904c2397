use crate::app::projects::project_ref::ProjectRef;
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use elevo_api as api;
use elevo_api::DiffFormat;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::answer::Answer;
use crate::http::page::{LONG_PAGE, PAGE, page};
use crate::http::request::{Path, Query, Who};
use crate::http::shared::Shared;

/// Routes that read the history of projects.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(steps))
        .routes(routes!(step))
        .routes(routes!(step_changes))
        .routes(routes!(history))
        .routes(routes!(blame))
        .routes(routes!(diff))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Steps {
    /// Only this step and the steps before it.
    until: Option<u64>,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of steps; 20 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List the steps of a project, newest first
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/steps", operation_id = "steps_list", tag = "projects", params(("id" = String, Path), Steps),
    responses((status = 200, description = "A page of steps, newest first", body = api::StepPage))
)]
pub(super) async fn steps(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<Steps>,
) -> Answer<Json<api::StepPage>> {
    let page = page(query.cursor, query.limit, PAGE)?;
    let steps = shared.app.projects.steps(&who, &id, query.until, page);
    Ok(Json(steps.await?))
}

/// Get a step
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/steps/{step}", operation_id = "steps_get", tag = "projects",
    params(("id" = String, Path), ("step" = u64, Path)),
    responses((status = 200, description = "The step", body = api::Step))
)]
pub(super) async fn step(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, step)): Path<(ProjectRef, u64)>,
) -> Answer<Json<api::Step>> {
    Ok(Json(shared.app.projects.step(&who, &id, step).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Changes {
    /// Only changes at this path or below it.
    path: Option<String>,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of changes; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// List the changes of a step, ordered by path
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/steps/{step}/changes", operation_id = "steps_changes", tag = "projects",
    params(("id" = String, Path), ("step" = u64, Path), Changes),
    responses((status = 200, description = "A page of the changes of the step", body = api::VersionPage))
)]
pub(super) async fn step_changes(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, step)): Path<(ProjectRef, u64)>,
    Query(query): Query<Changes>,
) -> Answer<Json<api::VersionPage>> {
    let page = page(query.cursor, query.limit, LONG_PAGE)?;
    let which = (step, query.path.as_deref());
    let found = shared.app.projects.step_changes(&who, &id, which, page);
    Ok(Json(found.await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct History {
    /// The file or directory.
    path: String,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of changes; 20 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List the changes to a path, newest first
///
/// The list has one entry for each step that changed the path. If the path is a
/// directory and the step changed only paths below it, the entry is the first
/// of these changes in the order of paths.
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/history", operation_id = "projects_history", tag = "projects", params(("id" = String, Path), History),
    responses((status = 200, description = "A page of the changes of the path, newest first", body = api::VersionPage))
)]
pub(super) async fn history(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<History>,
) -> Answer<Json<api::VersionPage>> {
    let page = page(query.cursor, query.limit, PAGE)?;
    let found = shared.app.projects.history(&who, &id, &query.path, page);
    Ok(Json(found.await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct At {
    /// The file.
    path: String,
    /// The id of the current or an earlier head, or the name of a tag; the
    /// current head by default.
    snapshot: Option<String>,
}

/// Show the step and agent that each line of a file came from
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/blame", operation_id = "projects_blame", tag = "projects", params(("id" = String, Path), At),
    responses((status = 200, description = "The step that last changed each line", body = api::Blame))
)]
pub(super) async fn blame(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<At>,
) -> Answer<Json<api::Blame>> {
    let at = query.snapshot.as_deref();
    Ok(Json(
        shared
            .app
            .projects
            .blame(&who, &id, &query.path, at)
            .await?,
    ))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Between {
    /// The id of the current or an earlier head, or the name of a tag; the
    /// version before `to` by default.
    from: Option<String>,
    /// The id of the current or an earlier head, or the name of a tag; the
    /// current head by default.
    to: Option<String>,
    /// `json`, `patch` in the format of `git apply`, or `stat` for line counts.
    #[param(inline)]
    format: Option<DiffFormat>,
    /// Maximum number of changes in the response; 1000 by default.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u32>,
}

/// Compare two versions of a project
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/diff", operation_id = "projects_diff", tag = "projects", params(("id" = String, Path), Between),
    responses((status = 200, description = "The changes as JSON or as a patch, or the numbers of changed lines", content((api::DiffOrStat = "application/json"), (String = "text/x-diff"))))
)]
pub(super) async fn diff(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<Between>,
) -> Answer<Response> {
    let states = (query.from.as_deref(), query.to.as_deref());
    let limit = page(None, query.limit, (1000, 10_000))?.limit as usize;
    let app = &shared.app;
    Ok(match query.format.unwrap_or_default() {
        DiffFormat::Patch => {
            let patch = app.projects.patch(&who, &id, states).await?;
            ([(CONTENT_TYPE, "text/x-diff")], patch).into_response()
        }
        DiffFormat::Stat => {
            Json(app.projects.stat(&who, &id, states, limit).await?).into_response()
        }
        DiffFormat::Json => {
            Json(app.projects.diff(&who, &id, states, limit).await?).into_response()
        }
    })
}
