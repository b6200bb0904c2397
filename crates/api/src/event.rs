use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number: more than that of all that happened before.
    pub id: u64,
    /// What it was.
    #[schema(example = "sandbox.created")]
    pub event: String,
    /// When.
    pub timestamp: String,
    /// More about it: the sandbox as it was then, what a project or review is
    /// called, or the paths that a workspace could not merge.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// Some of what happened, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events.
    pub items: Vec<Event>,
    /// What to ask for what comes `after` these.
    pub last: u64,
}
