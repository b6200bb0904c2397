use crate::app::projects::project_ref::ProjectRef;
use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use elevo_api as api;
use elevo_api::DiffFormat;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::failure::{Failure, Result};
use crate::http::answer::{Answer, file_answer};
use crate::http::description::Binary;
use crate::http::request::{Path, Query, Who};
use crate::http::shared::Shared;

fn limit(limit: Option<u32>, default: u32, most: u32) -> Result<u32> {
    let limit = limit.unwrap_or(default);
    match (1..=most).contains(&limit) {
        true => Ok(limit),
        false => Err(Failure::invalid(format!("`limit` must be 1 to {most}"))),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Log {
    /// Only steps before this sequence number: `next` of the previous page.
    before: Option<u64>,
    /// Maximum number of steps; 20 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List the steps of a project, newest first
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/log", operation_id = "projects_log", tag = "projects", params(("id" = String, Path), Log),
    responses((status = 200, description = "A page of steps, newest first", body = api::LogPage))
)]
pub(super) async fn log(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<Log>,
) -> Answer<Json<api::LogPage>> {
    let page = (query.before, limit(query.limit, 20, 100)?);
    Ok(Json(shared.app.projects.log(&who, &id, page).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Step {
    /// Only paths after this cursor: `next` of the previous page.
    after: Option<String>,
    /// Maximum number of paths; 100 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List the changes of one step
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/log/{sequence}", operation_id = "projects_step", tag = "projects",
    params(("id" = String, Path), ("sequence" = u64, Path), Step),
    responses((status = 200, description = "A page of the changes of the step", body = api::VersionPage))
)]
pub(super) async fn step(
    State(shared): State<Shared>,
    Who(who): Who,
    Path((id, sequence)): Path<(ProjectRef, u64)>,
    Query(query): Query<Step>,
) -> Answer<Json<api::VersionPage>> {
    let page = (query.after.as_deref(), limit(query.limit, 100, 100)?);
    let found = shared.app.projects.step(&who, &id, sequence, page).await?;
    Ok(Json(found))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct History {
    /// The file or directory.
    path: String,
    /// Only changes of steps before this sequence number: `next` of the
    /// previous page.
    before: Option<u64>,
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
    let page = (query.before, limit(query.limit, 20, 100)?);
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

/// Download a file of a version of a project
///
/// The headers describe the entry: `X-Elevo-Type` is `file` or `symlink`,
/// `X-Elevo-Mode` has the permission bits, `X-Elevo-Id` the id of the content.
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/file", operation_id = "projects_file", tag = "projects", params(("id" = String, Path), At),
    responses((status = 200, description = "The content of the file", content_type = "application/octet-stream", body = Binary,
        headers(
            ("X-Elevo-Type" = String, description = "`file` or `symlink`"),
            ("X-Elevo-Mode" = String, description = "The permission bits, in octal"),
            ("X-Elevo-Id" = String, description = "Id of the content")
        )))
)]
pub(super) async fn file(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<At>,
) -> Answer<Response> {
    let at = query.snapshot.as_deref();
    let found = shared.app.projects.file(&who, &id, &query.path, at).await?;
    let (version, content) = found;
    let headers = [
        (HeaderName::from_static("x-elevo-type"), version.kind),
        (HeaderName::from_static("x-elevo-mode"), version.mode),
        (
            HeaderName::from_static("x-elevo-id"),
            version.id.unwrap_or_default(),
        ),
    ];
    Ok((headers, file_answer(content)).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Directory {
    /// The directory; the whole project by default.
    path: Option<String>,
    /// The id of the current or an earlier head, or the name of a tag; the
    /// current head by default.
    snapshot: Option<String>,
    /// Only names after this cursor: `next` of the previous page.
    after: Option<String>,
    /// Maximum number of entries; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// List the entries of a directory
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/tree", operation_id = "projects_tree", tag = "projects", params(("id" = String, Path), Directory),
    responses((status = 200, description = "A page of the entries of the directory", body = api::TreePage))
)]
pub(super) async fn tree(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<Directory>,
) -> Answer<Json<api::TreePage>> {
    let path = query.path.as_deref().unwrap_or_default();
    let page = (query.after.as_deref(), limit(query.limit, 100, 1000)?);
    let at = query.snapshot.as_deref();
    let found = shared.app.projects.tree(&who, &id, path, at, page).await?;
    Ok(Json(found))
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
    let limit = limit(query.limit, 1000, 10_000)? as usize;
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
