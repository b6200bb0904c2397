use axum::Json;
use axum::extract::{DefaultBodyLimit, State};

use axum::response::Response;
use elevo_api as api;
use elevo_core::{ErrorCode, ReviewId};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::projects::reviews::{ReviewsQuery, Side};
use crate::app::requests::once::Once;
use crate::failure::Failure;
use crate::http::answer::{Answer, file_answer, name_request};
use crate::http::description::Binary;
use crate::http::page::{PAGE, page};
use crate::http::request::{Body, Path, Query, Who};
use crate::http::route_rules::PATCH_BODY;
use crate::http::shared::Shared;
use crate::platform::audit;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    let large = OpenApiRouter::new()
        .routes(routes!(resolve_many))
        .layer(DefaultBodyLimit::max(PATCH_BODY));
    OpenApiRouter::new()
        .merge(large)
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(content))
        .routes(routes!(resolve))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct List {
    /// Only reviews of this project, by id or name.
    project: Option<String>,
    /// Only reviews of this workspace, by id or name.
    workspace: Option<String>,
    /// Only reviews in this state.
    state: Option<api::ReviewState>,
    /// Cursor: `next` of the previous page. Default: the first page.
    cursor: Option<String>,
    /// Maximum number of reviews; 20 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// List reviews, oldest first
#[utoipa::path(
    get, path = "/api/v1/reviews", operation_id = "reviews_list", tag = "reviews", params(List),
    responses((status = 200, description = "A page of reviews, oldest first", body = api::ReviewPage))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Who(who): Who,
    Query(query): Query<List>,
) -> Answer<Json<api::ReviewPage>> {
    let wanted = ReviewsQuery {
        project: query.project.as_deref().map(Into::into),
        workspace: query.workspace,
        state: query.state,
        page: page(query.cursor, query.limit, PAGE)?,
    };
    Ok(Json(shared.app.reviews.list(&who, wanted).await?))
}

/// Get a review
#[utoipa::path(
    get, path = "/api/v1/reviews/{id}", operation_id = "reviews_get", tag = "reviews", params(("id" = String, Path)),
    responses((status = 200, description = "The review", body = api::Review))
)]
pub(super) async fn get(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ReviewId>,
) -> Answer<Json<api::Review>> {
    Ok(Json(shared.app.reviews.get(&who, &id).await?))
}

/// A version of a file in review.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SideName {
    /// The common base.
    Base,
    /// The head of the project when the review was opened.
    Project,
    /// The workspace.
    Workspace,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Content {
    /// The version to return.
    #[param(inline)]
    side: SideName,
}

/// Download one version of a file in review
#[utoipa::path(
    get, path = "/api/v1/reviews/{id}/content", operation_id = "reviews_content", tag = "reviews", params(("id" = String, Path), Content),
    responses((status = 200, description = "The content of the file", content_type = "application/octet-stream", body = Binary))
)]
pub(super) async fn content(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ReviewId>,
    Query(query): Query<Content>,
) -> Answer<Response> {
    let side = match query.side {
        SideName::Base => Side::Base,
        SideName::Project => Side::Ours,
        SideName::Workspace => Side::Theirs,
    };
    let content = shared.app.reviews.content(&who, &id, side).await?;
    let content = content.ok_or_else(|| {
        let message = "the file does not exist on this side of the review";
        Failure::new(ErrorCode::PathNotFound, message)
    })?;
    Ok(file_answer(content))
}

/// Decide a review
///
/// The result is merged with the current head. If the merge has a conflict, the
/// review stays `open` with the new conflict.
#[utoipa::path(
    post, path = "/api/v1/reviews/{id}/resolve", operation_id = "reviews_resolve", tag = "reviews", params(("id" = String, Path)),
    request_body = api::ResolveReview,
    extensions(("x-elevo" = json!({"audit": "review.resolved", "disk": "spared"}))),
    responses((status = 200, description = "The decided review", body = api::Review))
)]
pub(super) async fn resolve(
    State(shared): State<Shared>,
    Who(who): Who,
    Path(id): Path<ReviewId>,
    once: Once,
    Body(wish): Body<api::ResolveReview>,
) -> Answer<Json<api::Review>> {
    let decided = shared.app.reviews.resolve(&who, &id, wish, once);
    Ok(Json(decided.await?))
}

/// Decide up to 50 reviews
///
/// Each decision is carried out separately, in the order of the list: the failure
/// of one does not affect the others.
#[utoipa::path(
    post, path = "/api/v1/reviews/resolve", operation_id = "reviews_resolve_many", tag = "reviews",
    request_body = api::ResolveReviews,
    extensions(("x-elevo" = json!({"audit": "review.resolved", "disk": "spared", "body": "patch"}))),
    responses((status = 200, description = "The decided reviews, and an error for each of the others", body = api::ReviewsResolved))
)]
pub(super) async fn resolve_many(
    State(shared): State<Shared>,
    Who(who): Who,
    once: Once,
    Body(wish): Body<api::ResolveReviews>,
) -> Answer<Json<api::ReviewsResolved>> {
    let ids = wish.items.iter().map(|item| audit::cut(&item.id));
    audit::detail("reviews", ids.collect::<Vec<_>>());
    let decided = shared.app.reviews.resolve_many(&who, wish, &once);
    let mut decided = decided.await?;
    name_request(&mut decided.failed);
    Ok(Json(decided))
}
