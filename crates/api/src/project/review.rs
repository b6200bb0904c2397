use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::merge::Conflict;

/// Where a review is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReviewState {
    /// Somebody must decide.
    Open,
    /// The change landed, as it was or edited.
    Resolved,
    /// The change is not wanted.
    Rejected,
    /// A newer change of the same path took its place.
    Superseded,
    /// Nobody decided in time.
    Expired,
}

/// A change that waits for a decision.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// Its id.
    pub id: String,
    /// The project.
    pub project: String,
    /// The workspace that the change comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The agent whose change it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where it is in its life.
    pub state: ReviewState,
    /// What it is about.
    #[serde(flatten)]
    pub conflict: Conflict,
    /// The snapshot with the base version.
    pub base_snapshot: String,
    /// The head when it was opened.
    pub ours_snapshot: String,
    /// The snapshot with the workspace's version.
    pub theirs_snapshot: String,
    /// How often its resolution met another conflict.
    pub reopened: u32,
    /// When it was opened.
    pub created_at: String,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<String>,
    /// Who closed it: an agent, or a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<String>,
    /// The name of that agent or key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by_name: Option<String>,
    /// The review that took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    /// How it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// The message of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_message: Option<String>,
    /// The message of the merge that the change comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the key that asks may decide on it: it is open, the key has the
    /// scope `reviews`, and the change is not one of its own agent.
    #[serde(default)]
    pub may_decide: bool,
}

/// Reviews, a page of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewPage {
    /// The oldest first.
    pub items: Vec<Review>,
    /// Where the next page begins; none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// Leave what the head has; the change is dealt with.
    Ours,
    /// Take the workspace's version.
    Theirs,
    /// Take what the review suggests.
    Suggested,
    /// Take `content`, `base64`, or nothing: remove it.
    Edited,
    /// The change is not wanted.
    Reject,
}

/// How a review is decided.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveReview {
    /// The decision.
    pub resolution: Resolution,
    /// The file as it shall be, for `edited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The same as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// What is said of it.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub message: String,
}
