//! Single files of workspaces.

use axum::Json;
use axum::body::Body as RawBody;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use elevo_api as api;
use elevo_core::WorkspaceId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::answer::Answer;
use crate::http::description::Binary;
use crate::http::request::{Body, Path, Query, Who};
use crate::http::shared::Shared;
use crate::http::single_files::{self, DeletedFile, ListedFiles, NewFile, OneFile, RawPath};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(read, write, remove))
        .routes(routes!(list))
        .routes(routes!(rename))
        .routes(routes!(make_directory))
}

/// Download a file of a workspace
///
/// A relative path and `/workspace/…` name a file of the workspace, and
/// `/home/agent/…` a file of its home.
/// Links are followed as long as they stay inside. `HEAD` responds with the
/// headers only.
#[utoipa::path(
    get, path = "/api/v1/workspaces/{id}/files", operation_id = "workspaces_read_file", tag = "workspaces",
    params(
        ("id" = String, Path), OneFile,
        ("Range" = Option<String>, Header, description = "One range of bytes, such as `bytes=0-99`."),
        ("If-None-Match" = Option<String>, Header, description = "`ETag`s of versions that the client has.")
    ),
    responses(
        (status = 200, description = "The content of the file", content_type = "application/octet-stream", body = Binary,
            headers(
                ("ETag" = String, description = "Tag of this version of the file. Weak if the file changes at this moment."),
                ("Last-Modified" = String, description = "Time of the last change"),
                ("Accept-Ranges" = String, description = "`bytes`"),
                ("X-Elevo-Mode" = String, description = "The permission bits, in octal")
            )),
        (status = 206, description = "The requested range", content_type = "application/octet-stream", body = Binary),
        (status = 304, description = "The client has this version")
    )
)]
pub(super) async fn read(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Query(_): Query<OneFile>,
    path: RawPath,
    method: Method,
    headers: HeaderMap,
) -> Answer<Response> {
    single_files::read(&shared, &who, (&id).into(), path, (method, headers)).await
}

/// Upload a file to a workspace
///
/// The new content replaces the file in one step when the body is complete. A
/// link is replaced, not followed.
#[utoipa::path(
    put, path = "/api/v1/workspaces/{id}/files", operation_id = "workspaces_write_file", tag = "workspaces",
    params(
        ("id" = String, Path), NewFile,
        ("If-Match" = Option<String>, Header, description = "`ETag` that the file must have, or `*` if it must exist."),
        ("If-None-Match" = Option<String>, Header, description = "`*` if the file must not exist.")
    ),
    request_body(content = Binary, content_type = "application/octet-stream"),
    extensions(("x-elevo" = json!({"audit": "file.written", "body": "archive"}))),
    responses(
        (status = 200, description = "The file, which replaced another", body = api::FileInfo,
            headers(("ETag" = String, description = "Tag of the new version"))),
        (status = 201, description = "The new file", body = api::FileInfo,
            headers(("ETag" = String, description = "Tag of the new version")))
    )
)]
pub(super) async fn write(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Query(query): Query<NewFile>,
    path: RawPath,
    headers: HeaderMap,
    body: RawBody,
) -> Answer<Response> {
    single_files::write(&shared, &who, (&id).into(), path, query, (headers, body)).await
}

/// Delete a file, a link or a directory of a workspace
#[utoipa::path(
    delete, path = "/api/v1/workspaces/{id}/files", operation_id = "workspaces_delete_file", tag = "workspaces",
    params(
        ("id" = String, Path), DeletedFile,
        ("If-Match" = Option<String>, Header, description = "`ETag` that the file must have.")
    ),
    extensions(("x-elevo" = json!({"audit": "file.deleted"}))),
    responses((status = 204, description = "The file is deleted"))
)]
pub(super) async fn remove(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Query(query): Query<DeletedFile>,
    path: RawPath,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    single_files::remove(&shared, &who, (&id).into(), path, query, headers).await
}

/// List a directory of a workspace, ordered by name
///
/// A name that is not UTF-8 is shown with replacement characters.
#[utoipa::path(
    get, path = "/api/v1/workspaces/{id}/files/list", operation_id = "workspaces_list_files", tag = "workspaces",
    params(("id" = String, Path), ListedFiles),
    responses((status = 200, description = "A page of the entries of the directory", body = api::FilePage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Query(query): Query<ListedFiles>,
    path: RawPath,
) -> Answer<Json<api::FilePage>> {
    single_files::list(&shared, &who, (&id).into(), path, query).await
}

/// Move a file, a link or a directory of a workspace
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/files/move", operation_id = "workspaces_move_file", tag = "workspaces",
    params(("id" = String, Path)),
    request_body = api::MoveFile,
    extensions(("x-elevo" = json!({"audit": "file.moved", "disk": "spared"}))),
    responses((status = 200, description = "The file at its new path", body = api::FileInfo))
)]
pub(super) async fn rename(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Body(wish): Body<api::MoveFile>,
) -> Answer<Json<api::FileInfo>> {
    single_files::rename(&shared, &who, (&id).into(), wish).await
}

/// Create a directory in a workspace
#[utoipa::path(
    post, path = "/api/v1/workspaces/{id}/files/mkdir", operation_id = "workspaces_make_directory", tag = "workspaces",
    params(("id" = String, Path)),
    request_body = api::MakeDirectory,
    extensions(("x-elevo" = json!({"audit": "directory.created"}))),
    responses(
        (status = 200, description = "The directory, which existed", body = api::FileInfo),
        (status = 201, description = "The new directory", body = api::FileInfo)
    )
)]
pub(super) async fn make_directory(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<WorkspaceId>,
    Body(wish): Body<api::MakeDirectory>,
) -> Answer<Response> {
    single_files::make_directory(&shared, &who, (&id).into(), wish).await
}
