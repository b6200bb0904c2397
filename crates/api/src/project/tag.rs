use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Request to set a tag.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetTag {
    /// Name of the tag: letters, digits, `.`, `_` and `-`. Names that identify
    /// a version in another way (`head`, a number, the first digits of an id)
    /// are not allowed.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// The version to tag, by the id of its snapshot or another tag; the head
    /// by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Reason for the tag.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1000)]
    pub message: String,
    /// Whether to move the tag if it already names another version.
    #[serde(default, rename = "move")]
    pub may_move: bool,
}

/// A name for a version. The content of a tagged version is kept.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tag {
    /// Name of the tag.
    pub name: String,
    /// Snapshot of the version.
    pub snapshot: String,
    /// Number of the step that made the version; absent for the state that the project
    /// started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The agent that set the tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Reason for the tag.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the tag was set or moved.
    pub created_at: String,
}

/// A page of tags.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TagPage {
    /// The tags, ordered by name.
    pub items: Vec<Tag>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
