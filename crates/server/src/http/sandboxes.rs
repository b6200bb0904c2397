use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use elevo_api as api;
use elevo_core::SandboxId;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::requests::once::Once;
use crate::app::sandboxes::{ListQuery, LogsQuery, metadata};
use crate::failure::Failure;
use crate::http::answer::{Answer, name_request};
use crate::http::page::{PAGE, page};
use crate::http::request::{Body, Path, Query, Who};
use crate::http::shared::Shared;
use crate::platform::{audit, clock};

/// Create a sandbox
///
/// Responds when commands can run in the sandbox.
#[utoipa::path(
    post, path = "/api/v1/sandboxes", operation_id = "sandboxes_create", tag = "sandboxes",
    request_body = api::CreateSandbox,
    extensions(("x-elevo" = json!({"audit": "sandbox.created", "rate": "create"}))),
    responses((status = 201, description = "The sandbox, which is running", body = api::Sandbox))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    Who(who): Who,
    once: Once,
    Body(wish): Body<api::CreateSandbox>,
) -> Answer<(StatusCode, Json<api::Sandbox>)> {
    audit::detail("template", audit::cut(&wish.template));
    let made = shared.app.sandboxes.create(&who, wish, once).await?;
    audit::about("sandbox_id", made.id.as_str());
    Ok((StatusCode::CREATED, Json(made)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct List {
    /// Cursor: `next` of the previous page. Default: the first page. In place of
    /// `page`.
    cursor: Option<String>,
    /// Number of the page, starting at 1. Pages by number shift when a sandbox is
    /// created or deleted; pages by cursor do not.
    #[param(minimum = 1)]
    page: Option<u32>,
    /// Maximum sandboxes per page; 20 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// Only sandboxes in this state.
    state: Option<api::SandboxState>,
    /// Only sandboxes whose name starts with this prefix.
    #[serde(alias = "namePrefix")]
    name_prefix: Option<String>,
    /// Only sandboxes with this pair of metadata, in the form `KEY:VALUE`. Can
    /// be repeated: a sandbox must have all pairs.
    #[serde(default)]
    #[param(example = json!(["run:7"]))]
    metadata: Vec<String>,
}

/// List sandboxes, newest first
#[utoipa::path(
    get, path = "/api/v1/sandboxes", operation_id = "sandboxes_list", tag = "sandboxes", params(List),
    responses((status = 200, description = "A page of sandboxes, newest first", body = api::SandboxPage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<List>,
) -> Answer<Json<api::SandboxPage>> {
    let number = query.page.unwrap_or(1);
    if number == 0 {
        return Err(Failure::invalid("`page` must be at least 1").into());
    }
    if query.page.is_some() && query.cursor.is_some() {
        let message = "`page` and `cursor` cannot be used together";
        return Err(Failure::invalid(message).into());
    }
    let query = ListQuery {
        number,
        page: page(query.cursor, query.limit, PAGE)?,
        state: query.state.map(Into::into),
        name_prefix: query.name_prefix,
        metadata: metadata::filters(&query.metadata)?,
    };
    Ok(Json(shared.app.sandboxes.list(&who, query).await?))
}

/// Get a sandbox
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}", operation_id = "sandboxes_get", tag = "sandboxes", params(("id" = String, Path)),
    responses((status = 200, description = "The sandbox", body = api::Sandbox))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
) -> Answer<Json<api::Sandbox>> {
    Ok(Json(shared.app.sandboxes.get(&who, &id).await?))
}

/// Change the name, the metadata or the expiry of a sandbox
#[utoipa::path(
    patch, path = "/api/v1/sandboxes/{id}", operation_id = "sandboxes_change", tag = "sandboxes", params(("id" = String, Path)),
    request_body = api::ChangeSandbox,
    extensions(("x-elevo" = json!({"audit": "sandbox.changed"}))),
    responses((status = 200, description = "The changed sandbox", body = api::Sandbox))
)]
pub(super) async fn change(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    Body(wish): Body<api::ChangeSandbox>,
) -> Answer<Json<api::Sandbox>> {
    Ok(Json(shared.app.sandboxes.change(&who, &id, wish).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Delete {
    /// Whether to park the workspace. A new sandbox can resume a parked
    /// workspace until the workspace expires.
    #[serde(alias = "keepWorkspace")]
    keep_workspace: Option<bool>,
}

/// Delete a sandbox and, unless `keep_workspace` is set, its workspace
#[utoipa::path(
    delete, path = "/api/v1/sandboxes/{id}", operation_id = "sandboxes_delete", tag = "sandboxes", params(("id" = String, Path), Delete),
    extensions(("x-elevo" = json!({"audit": "sandbox.deleted"}))),
    responses((status = 204, description = "The sandbox was deleted"))
)]
pub(super) async fn delete(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    Query(query): Query<Delete>,
) -> Answer<StatusCode> {
    let keep = query.keep_workspace.unwrap_or_default();
    shared.app.sandboxes.delete(&who, &id, keep).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete up to 50 sandboxes
#[utoipa::path(
    post, path = "/api/v1/sandboxes/batch-delete", operation_id = "sandboxes_delete_many", tag = "sandboxes", request_body = api::BatchDelete,
    extensions(("x-elevo" = json!({"audit": "sandbox.deleted", "disk": "frees"}))),
    responses((status = 200, description = "The deleted sandboxes, and an error for each of the others", body = api::BatchDeleted))
)]
pub(super) async fn batch_delete(
    State(shared): State<Shared>,
    Who(who): Who,
    once: Once,
    Body(wish): Body<api::BatchDelete>,
) -> Answer<Json<api::BatchDeleted>> {
    audit::detail(
        "sandboxes",
        wish.ids.iter().map(|id| audit::cut(id)).collect::<Vec<_>>(),
    );
    let mut deleted = shared.app.sandboxes.batch_delete(&who, wish, once).await?;
    name_request(&mut deleted.failed);
    Ok(Json(deleted))
}

/// Stop a sandbox; its processes end and its workspace is kept
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/stop", operation_id = "sandboxes_stop", tag = "sandboxes", params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "sandbox.stopped", "disk": "frees"}))),
    responses((status = 200, description = "The stopped sandbox", body = api::Sandbox))
)]
pub(super) async fn stop(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
) -> Answer<Json<api::Sandbox>> {
    Ok(Json(shared.app.sandboxes.stop(&who, &id).await?))
}

/// Start a sandbox in the state `stopped` or `error`
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/start", operation_id = "sandboxes_start", tag = "sandboxes", params(("id" = String, Path)),
    extensions(("x-elevo" = json!({"audit": "sandbox.started", "disk": "spared"}))),
    responses((status = 200, description = "The sandbox, which is running", body = api::Sandbox))
)]
pub(super) async fn start(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
) -> Answer<Json<api::Sandbox>> {
    Ok(Json(shared.app.sandboxes.start(&who, &id).await?))
}

/// Extend the lifetime of a sandbox
#[utoipa::path(
    post, path = "/api/v1/sandboxes/{id}/extend", operation_id = "sandboxes_extend", tag = "sandboxes", params(("id" = String, Path)),
    request_body = api::Extend,
    extensions(("x-elevo" = json!({"audit": "sandbox.extended", "disk": "spared"}))),
    responses((status = 200, description = "The sandbox with its new expiry time", body = api::Sandbox))
)]
pub(super) async fn extend(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    once: Once,
    Body(wish): Body<api::Extend>,
) -> Answer<Json<api::Sandbox>> {
    Ok(Json(
        shared.app.sandboxes.extend(&who, &id, wish, once).await?,
    ))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Logs {
    /// Maximum number of lines, counted from the end of the log; 100 by
    /// default.
    #[param(minimum = 1, maximum = 10000)]
    tail: Option<u32>,
    /// Only lines from this time on (RFC 3339).
    since: Option<String>,
    /// Only lines until this time (RFC 3339).
    until: Option<String>,
}

/// Read the log of a sandbox's container
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/logs", operation_id = "sandboxes_logs", tag = "sandboxes", params(("id" = String, Path), Logs),
    responses((status = 200, description = "The newest lines of the log", body = api::Logs))
)]
pub(super) async fn logs(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
    Query(query): Query<Logs>,
) -> Answer<Json<api::Logs>> {
    let time = |text: Option<String>, name: &str| match text {
        Some(text) => match clock::parse(&text) {
            Some(time) => Ok(Some(time)),
            None => Err(Failure::invalid(format!(
                "`{name}` is not a time such as 2026-01-15T10:00:00Z"
            ))),
        },
        None => Ok(None),
    };
    let tail = query.tail.unwrap_or(100);
    if !(1..=10_000).contains(&tail) {
        return Err(Failure::invalid("`tail` must be 1 to 10000").into());
    }
    let query = LogsQuery {
        tail,
        since: time(query.since, "since")?,
        until: time(query.until, "until")?,
    };
    Ok(Json(shared.app.sandboxes.logs(&who, &id, query).await?))
}

/// Get the resource usage of a sandbox
#[utoipa::path(
    get, path = "/api/v1/sandboxes/{id}/stats", operation_id = "sandboxes_stats", tag = "sandboxes", params(("id" = String, Path)),
    responses((status = 200, description = "The current use of resources", body = api::SandboxStats))
)]
pub(super) async fn stats(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<SandboxId>,
) -> Answer<Json<api::SandboxStats>> {
    Ok(Json(shared.app.sandboxes.stats(&who, &id).await?))
}
