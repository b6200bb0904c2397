//! Routes of the admin socket.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::routing::{get, post};
use axum::{Json, Router};
use elevo_api as api;
use elevo_core::{ErrorCode, WorkspaceId};

use crate::failure::Failure;
use crate::http::answer::{Answer, ApiError};
use crate::http::layers;
use crate::http::request::Body;
use crate::http::shared::Shared;

/// Creates the router of the admin socket.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/backup", post(back_up))
        .route("/gc", post(collect))
        .route("/quarantine", get(list_quarantine))
        .route("/quarantine/{id}/restore", post(restore_quarantined))
        .fallback(async || {
            let message = "the admin socket of this server has no such path";
            ApiError::from(Failure::new(ErrorCode::NotFound, message))
        })
        .layer(from_fn(layers::observe))
        .with_state(shared)
}

async fn back_up(
    State(shared): State<Shared>,
    Body(wish): Body<api::MakeBackup>,
) -> Answer<Json<api::BackupMade>> {
    Ok(Json(shared.app.backups.create(wish).await?))
}

async fn collect(
    State(shared): State<Shared>,
    Body(wish): Body<api::Gc>,
) -> Answer<Json<api::GcResult>> {
    Ok(Json(shared.app.garbage.collect_now(wish).await?))
}

async fn list_quarantine(State(shared): State<Shared>) -> Answer<Json<api::QuarantineList>> {
    Ok(Json(shared.app.quarantine.list()?))
}

async fn restore_quarantined(
    State(shared): State<Shared>,
    Path(id): Path<WorkspaceId>,
) -> Answer<StatusCode> {
    shared.app.quarantine.restore(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}
