use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A wish for a tag.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetTag {
    /// What it is called: letters, digits, `.`, `_` and `-`, and not what names
    /// a version otherwise (`head`, a number, the first digits of an id).
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// The version, by its snapshot or by another tag; the head by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1000)]
    pub message: String,
    /// Whether it may be taken from another version.
    #[serde(default, rename = "move")]
    pub may_move: bool,
}

/// A name of a version, which keeps its content.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tag {
    /// What it is called.
    pub name: String,
    /// The version.
    pub snapshot: String,
    /// Its number in the log; none if the project began with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The agent who set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was set, or moved.
    pub created_at: String,
}

/// Tags, a page of them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TagPage {
    /// By name.
    pub items: Vec<Tag>,
    /// Where the next page begins; none if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
