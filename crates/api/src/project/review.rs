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
    /// The review was decided, with a decision other than `reject`.
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
    pub ours_snapshot: String,
    /// Snapshot that contains the workspace's version.
    pub theirs_snapshot: String,
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
    /// The decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Message of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_message: Option<String>,
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

/// A decision on a review: `ours` keeps the head's version, `theirs` takes the
/// workspace's version, `suggested` takes the suggested version, `edited` takes
/// new content, and `reject` rejects the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// Keep the head's version. The review counts as resolved.
    Ours,
    /// Take the workspace's version.
    Theirs,
    /// Take the version that the review suggests.
    Suggested,
    /// Take `content` or `base64`, or remove the path if both are absent.
    Edited,
    /// Reject the change.
    Reject,
}

/// Request to decide a review.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveReview {
    /// The decision.
    pub resolution: Resolution,
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
    pub resolution: Resolution,
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
