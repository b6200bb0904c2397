//! Requests that read files of projects and snapshots.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use elevo_api as api;
use futures::TryStreamExt;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::files::stored::StoredFile;
use crate::app::projects::project_ref::ProjectRef;
use crate::failure::Result;
use crate::http::answer::Answer;
use crate::http::description::Binary;
use crate::http::page::{LONG_PAGE, page};
use crate::http::ranges::{FileHead, decide, respond};
use crate::http::request::{Path, Query, Who};
use crate::http::shared::Shared;
use crate::http::single_files::counted_page;
use crate::http::tar;

/// Routes that read files of projects and snapshots.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(project_file))
        .routes(routes!(project_list))
        .routes(routes!(snapshot_file))
        .routes(routes!(snapshot_list))
        .routes(routes!(snapshot_archive))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OfProject {
    /// The file.
    path: String,
    /// The id of the current or an earlier head, or the name of a tag; the
    /// current head by default.
    snapshot: Option<String>,
}

/// Download a file of a version of a project
///
/// `HEAD` responds with the headers only. The server follows symbolic links
/// that stay inside the project. `Range` selects a part of the file; several
/// ranges in one request get the whole file. The `ETag` is the hash of the
/// content: files with the same content have the same `ETag`.
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/files", operation_id = "projects_read_file", tag = "projects",
    params(
        ("id" = String, Path), OfProject,
        ("Range" = Option<String>, Header, description = "`bytes=FIRST-LAST`, `bytes=FIRST-` or `bytes=-LENGTH`"),
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of the file that the client has")
    ),
    responses(
        (status = 200, description = "The content of the file", content_type = "application/octet-stream", body = Binary,
            headers(
                ("ETag" = String, description = "Hash of the content"),
                ("X-Elevo-Mode" = String, description = "The permission bits, in octal")
            )),
        (status = 206, description = "A part of the content", content_type = "application/octet-stream", body = Binary,
            headers(
                ("Content-Range" = String, description = "The first and the last byte, and the size of the file"),
                ("ETag" = String, description = "Hash of the content"),
                ("X-Elevo-Mode" = String, description = "The permission bits, in octal")
            )),
        (status = 304, description = "The client has the current content")
    )
)]
pub(super) async fn project_file(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<OfProject>,
    method: Method,
    headers: HeaderMap,
) -> Answer<Response> {
    let at = query.snapshot.as_deref();
    let files = shared.app.projects.files(&who, &id, at).await?;
    let file = files.file(&query.path).await?;
    Ok(send(file, &method, &headers).await?)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DirectoryOfProject {
    /// The directory; the whole project by default.
    path: Option<String>,
    /// The id of the current or an earlier head, or the name of a tag; the
    /// current head by default.
    snapshot: Option<String>,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of entries; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// List the entries of a directory of a version of a project, ordered by name
#[utoipa::path(
    get, path = "/api/v1/projects/{id}/files/list", operation_id = "projects_list_files", tag = "projects",
    params(("id" = String, Path), DirectoryOfProject),
    responses((status = 200, description = "A page of the entries of the directory", body = api::FilePage))
)]
pub(super) async fn project_list(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ProjectRef>,
    Query(query): Query<DirectoryOfProject>,
) -> Answer<Response> {
    let path = query.path.as_deref().unwrap_or_default();
    let page = page(query.cursor, query.limit, LONG_PAGE)?;
    let at = query.snapshot.as_deref();
    let files = shared.app.projects.files(&who, &id, at).await?;
    let page = files.list(path, page).await?;
    counted_page(&shared, &who, &page)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OfSnapshot {
    /// The file.
    path: String,
}

/// Download a file of a snapshot
///
/// `HEAD` responds with the headers only. The server follows symbolic links
/// that stay inside the snapshot. `Range` selects a part of the file; several
/// ranges in one request get the whole file. The `ETag` is the hash of the
/// content: files with the same content have the same `ETag`.
#[utoipa::path(
    get, path = "/api/v1/snapshots/{id}/files", operation_id = "snapshots_read_file", tag = "snapshots",
    params(
        ("id" = String, Path), OfSnapshot,
        ("Range" = Option<String>, Header, description = "`bytes=FIRST-LAST`, `bytes=FIRST-` or `bytes=-LENGTH`"),
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of the file that the client has")
    ),
    responses(
        (status = 200, description = "The content of the file", content_type = "application/octet-stream", body = Binary,
            headers(
                ("ETag" = String, description = "Hash of the content"),
                ("X-Elevo-Mode" = String, description = "The permission bits, in octal")
            )),
        (status = 206, description = "A part of the content", content_type = "application/octet-stream", body = Binary,
            headers(
                ("Content-Range" = String, description = "The first and the last byte, and the size of the file"),
                ("ETag" = String, description = "Hash of the content"),
                ("X-Elevo-Mode" = String, description = "The permission bits, in octal")
            )),
        (status = 304, description = "The client has the current content")
    )
)]
pub(super) async fn snapshot_file(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    Query(query): Query<OfSnapshot>,
    method: Method,
    headers: HeaderMap,
) -> Answer<Response> {
    let files = shared.app.snapshots.files(&who, &id).await?;
    let file = files.file(&query.path).await?;
    Ok(send(file, &method, &headers).await?)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DirectoryOfSnapshot {
    /// The directory; the whole snapshot by default.
    path: Option<String>,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of entries; 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// List the entries of a directory of a snapshot, ordered by name
#[utoipa::path(
    get, path = "/api/v1/snapshots/{id}/files/list", operation_id = "snapshots_list_files", tag = "snapshots",
    params(("id" = String, Path), DirectoryOfSnapshot),
    responses((status = 200, description = "A page of the entries of the directory", body = api::FilePage))
)]
pub(super) async fn snapshot_list(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    Query(query): Query<DirectoryOfSnapshot>,
) -> Answer<Response> {
    let path = query.path.as_deref().unwrap_or_default();
    let page = page(query.cursor, query.limit, LONG_PAGE)?;
    let files = shared.app.snapshots.files(&who, &id).await?;
    let page = files.list(path, page).await?;
    counted_page(&shared, &who, &page)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PartOfSnapshot {
    /// The file or directory; the whole snapshot by default.
    path: Option<String>,
}

/// Download files of a snapshot as a tar
#[utoipa::path(
    get, path = "/api/v1/snapshots/{id}/archive", operation_id = "snapshots_download", tag = "snapshots",
    params(("id" = String, Path), PartOfSnapshot),
    extensions(("x-elevo" = json!({"audit": "files.exported"}))),
    responses((status = 200, description = "A tar archive of the files", content_type = "application/x-tar", body = Binary))
)]
pub(super) async fn snapshot_archive(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    Query(query): Query<PartOfSnapshot>,
) -> Answer<Response> {
    let (pipe, written) = tar::pipe();
    let path = query.path.unwrap_or_default();
    let files = shared.app.snapshots.files(&who, &id).await?;
    written.answer(files.pack(&path, pipe).await?).await
}

/// Sends the part of a file that a request asks for.
async fn send(file: StoredFile, method: &Method, headers: &HeaderMap) -> Result<Response> {
    let head = FileHead {
        size: file.size(),
        etag: file.etag(),
        mode: file.mode(),
        modified: file.modified(),
    };
    let decision = decide(method, headers, head.size, &head.etag);
    let wanted = decision.bytes(head.size);
    let body = match wanted.filter(|_| *method != Method::HEAD) {
        Some(range) => {
            let pieces = file.open(range).await?.pieces();
            Body::from_stream(pieces.map_err(|failure| std::io::Error::other(failure.summary())))
        }
        None => Body::empty(),
    };
    Ok(respond(&head, &decision, body))
}
