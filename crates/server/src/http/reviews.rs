use axum::Json;
use axum::extract::State;

use axum::response::Response;
use elevo_api as api;
use elevo_core::ErrorCode;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::{Once, ReviewsQuery, Side};
use crate::failure::Failure;
use crate::http::Shared;
use crate::http::answer::{Answer, file_answer};
use crate::http::projects::page;
use crate::http::request::{Body, Path, Query, Who};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct List {
    /// Only those of this project, by id or name.
    project: Option<String>,
    /// Only those of this workspace.
    workspace: Option<String>,
    /// Only those in this state.
    state: Option<api::ReviewState>,
    /// Where the page begins: `next` of the page before.
    after: Option<String>,
    /// 20 by default, at most 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List reviews, the oldest first
#[utoipa::path(
    get, path = "/api/v1/reviews", tag = "reviews", params(List),
    responses((status = 200, body = api::ReviewPage), (status = "4XX", body = api::ErrorEnvelope))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<List>,
) -> Answer<Json<api::ReviewPage>> {
    let wanted = ReviewsQuery {
        project: query.project,
        workspace: query.workspace,
        state: query.state,
        page: page(query.after, query.limit)?,
    };
    Ok(Json(shared.app.list_reviews(&who, wanted).await?))
}

/// Get a review
#[utoipa::path(
    get, path = "/api/v1/reviews/{id}", tag = "reviews", params(("id" = String, Path)),
    responses((status = 200, body = api::Review), (status = "4XX", body = api::ErrorEnvelope))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
) -> Answer<Json<api::Review>> {
    Ok(Json(shared.app.get_review(&who, &id).await?))
}

/// Whose version.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SideName {
    /// What both began with.
    Base,
    /// What the head had.
    Ours,
    /// What the workspace has.
    Theirs,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Content {
    /// Whose version.
    #[param(inline)]
    side: SideName,
}

/// One of the three versions of a file in review
#[utoipa::path(
    get, path = "/api/v1/reviews/{id}/content", tag = "reviews", params(("id" = String, Path), Content),
    responses((status = 200, content_type = "application/octet-stream", body = String), (status = "4XX", body = api::ErrorEnvelope))
)]
pub(super) async fn content(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    Query(query): Query<Content>,
) -> Answer<Response> {
    let side = match query.side {
        SideName::Base => Side::Base,
        SideName::Ours => Side::Ours,
        SideName::Theirs => Side::Theirs,
    };
    let content = shared.app.review_content(&who, &id, side).await?;
    let content = content.ok_or_else(|| {
        let message = "there is no file on that side";
        Failure::new(ErrorCode::PathNotFound, message)
    })?;
    Ok(file_answer(content))
}

/// Decide on a change
///
/// What lands is merged against the head of this moment. If that conflicts, the
/// review stays `open`, with what is to be decided now.
#[utoipa::path(
    post, path = "/api/v1/reviews/{id}/resolve", tag = "reviews", params(("id" = String, Path)),
    request_body = api::ResolveReview,
    responses((status = 200, body = api::Review), (status = "4XX", body = api::ErrorEnvelope), (status = "5XX", body = api::ErrorEnvelope))
)]
pub(super) async fn resolve(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<String>,
    once: Once,
    Body(wish): Body<api::ResolveReview>,
) -> Answer<Json<api::Review>> {
    let decided = shared.app.resolve_review(&who, &id, wish, once);
    Ok(Json(decided.await?))
}
