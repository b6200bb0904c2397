//! Requests about snapshots.

use axum::Json;
use axum::body::Body as RawBody;
use axum::extract::State;
use axum::http::StatusCode;
use elevo_api as api;
use elevo_api::DiffFormat;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::files::diff::Compared;
use crate::app::snapshots::records::SnapshotFilter;
use crate::http::answer::Answer;
use crate::http::description::Binary;
use crate::http::diffs;
use crate::http::page::{PAGE, page};
use crate::http::request::{Body, Path, Query, Who};
use crate::http::shared::Shared;
use crate::http::upload;

/// Routes about snapshots.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(import, list))
        .routes(routes!(get, change))
        .routes(routes!(diff))
}

/// Create a snapshot from a tar (plain, gzip or zstd)
#[utoipa::path(
    post, path = "/api/v1/snapshots", operation_id = "snapshots_import", tag = "snapshots",
    request_body(content = Binary, content_type = "application/x-tar"),
    extensions(("x-elevo" = json!({"audit": "files.imported", "body": "archive"}))),
    responses((status = 201, description = "The snapshot of the imported files", body = api::SnapshotTaken))
)]
pub(super) async fn import(
    State(shared): State<Shared>,
    Who(who): Who,
    body: RawBody,
) -> Answer<(StatusCode, Json<api::SnapshotTaken>)> {
    who.needs(api::Scope::Files)?;
    let archive = upload::receive(&shared, &who, body).await?;
    let imported = shared.app.files.import_archive(&who, archive).await?;
    Ok((StatusCode::CREATED, Json(imported)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct List {
    /// Only snapshots that were taken of this workspace.
    workspace: Option<String>,
    /// Only snapshots whose name begins with this text.
    #[serde(alias = "namePrefix")]
    name_prefix: Option<String>,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of snapshots; 20 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List the snapshots that were taken, imported or named, newest first
///
/// An agent sees only its own snapshots. A snapshot with a name is kept until the
/// name is removed. Another one is kept while a workspace needs it, and at least
/// for the time in `GC_KEEP_UNNAMED`; then garbage collection deletes it, and it
/// disappears from the list.
#[utoipa::path(
    get, path = "/api/v1/snapshots", operation_id = "snapshots_list", tag = "snapshots", params(List),
    responses((status = 200, description = "A page of snapshots, newest first", body = api::SnapshotPage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<List>,
) -> Answer<Json<api::SnapshotPage>> {
    let wanted = page(query.cursor, query.limit, PAGE)?;
    let workspace = match &query.workspace {
        Some(text) => Some(shared.app.names.workspace(&who, text).await?),
        None => None,
    };
    let filter = SnapshotFilter {
        workspace,
        name_prefix: query.name_prefix,
    };
    let found = shared.app.snapshots.list(&who, filter, wanted);
    Ok(Json(found.await?))
}

/// Get a snapshot, by its id or name
#[utoipa::path(
    get, path = "/api/v1/snapshots/{id}", operation_id = "snapshots_get", tag = "snapshots", params(("id" = String, Path)),
    responses((status = 200, description = "The snapshot", body = api::Snapshot))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
) -> Answer<Json<api::Snapshot>> {
    Ok(Json(shared.app.snapshots.get(&who, &id).await?))
}

/// Set or remove the name of a snapshot
///
/// A snapshot with a name is kept until the name is removed.
#[utoipa::path(
    patch, path = "/api/v1/snapshots/{id}", operation_id = "snapshots_change", tag = "snapshots", params(("id" = String, Path)),
    request_body = api::ChangeSnapshot,
    extensions(("x-elevo" = json!({"audit": "snapshot.named"}))),
    responses((status = 200, description = "The changed snapshot", body = api::Snapshot))
)]
pub(super) async fn change(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    Body(wish): Body<api::ChangeSnapshot>,
) -> Answer<Json<api::Snapshot>> {
    Ok(Json(shared.app.snapshots.rename(&who, &id, wish).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Between {
    /// The snapshot to compare from, by id or name.
    from: String,
    /// The snapshot to compare to, by id or name.
    to: String,
    /// `json`, `patch` in the format of `git apply`, or `stat` for line counts.
    #[param(inline)]
    format: Option<DiffFormat>,
    /// Maximum number of changes in the response; 1000 by default.
    #[param(minimum = 1, maximum = 100000)]
    limit: Option<u32>,
}

/// Compare two snapshots
#[utoipa::path(
    get, path = "/api/v1/snapshots/diff", operation_id = "snapshots_diff", tag = "snapshots", params(Between),
    responses((status = 200, description = "The changes as JSON or as a patch, or the numbers of changed lines", content((api::DiffOrStat = "application/json"), (String = "text/x-diff"))))
)]
pub(super) async fn diff(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<Between>,
) -> Answer<Compared> {
    let options = diffs::options(query.format, query.limit)?;
    let between = (query.from.as_str(), query.to.as_str());
    Ok(shared.app.snapshots.diff(&who, between, options).await?)
}
