use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::merge::Conflict;
use crate::Failed;

/// State of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewState {
    /// The review needs a decision.
    Open,
    /// The review was decided, and a version was taken.
    Resolved,
    /// The change was rejected.
    Rejected,
    /// A newer change to the same path replaced this one.
    Superseded,
    /// No decision was made in time.
    Expired,
}

/// A held change that waits for a decision.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// Id of the review.
    pub id: String,
    /// Id of the project.
    pub project: String,
    /// The workspace that the change comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The agent that made the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// State of the review.
    pub state: ReviewState,
    /// The conflict to decide.
    #[serde(flatten)]
    pub conflict: Conflict,
    /// Snapshot that contains the base version.
    pub base_snapshot: String,
    /// Head of the project when the review was opened.
    pub project_snapshot: String,
    /// Snapshot that contains the workspace's version.
    pub workspace_snapshot: String,
    /// Number of decisions that led to another conflict.
    pub reopened: u32,
    /// When the review was opened.
    pub created_at: String,
    /// When the review expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When the review was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<String>,
    /// Id of the agent or key that closed the review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<String>,
    /// Name of the agent or key that closed the review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by_name: Option<String>,
    /// The review that replaced this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    /// The version that the decision took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub take: Option<Take>,
    /// Message of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_message: Option<String>,
    /// Message of the merge that the change comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the caller's key may decide this review: the review is open, the
    /// key has the scope `reviews`, and the key's own agent did not make the
    /// change.
    #[serde(default)]
    pub may_decide: bool,
}

/// A page of reviews.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewPage {
    /// The reviews, oldest first.
    pub items: Vec<Review>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The version that a decision takes: the project's, the workspace's, the
/// suggested one, an edited one, or none, which rejects the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// The version of the project. The review counts as resolved.
    Project,
    /// The version of the workspace.
    Workspace,
    /// The version that the review suggests.
    Suggested,
    /// The version in `content` or `base64`; if both are absent, the path is
    /// removed.
    Edited,
    /// No version: the change is rejected.
    Nothing,
}

/// Request to decide a review.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveReview {
    /// The version to take.
    pub take: Take,
    /// New content of the file, for `edited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// New content of the file in base64, for `edited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Message of the decision.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub message: String,
}

/// Request to decide several reviews.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveReviews {
    /// The decisions, in the order in which they are carried out; at most 50.
    #[schema(max_items = 50)]
    pub items: Vec<ReviewToResolve>,
}

/// The decision of one review among several.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewToResolve {
    /// Id of the review.
    pub id: String,
    /// The decision.
    pub take: Take,
    /// New content of the file, for `edited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// New content of the file in base64, for `edited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Message of the decision.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub message: String,
}

/// Result of a request to decide several reviews.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ReviewsResolved {
    /// The decided reviews. A review whose decision conflicts with the head
    /// stays `open`.
    pub succeeded: Vec<Review>,
    /// Reviews that were not decided.
    pub failed: Vec<Failed>,
}
