use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The names of all kinds of events.
pub const EVENT_KINDS: [&str; 15] = [
    "sandbox.created",
    "sandbox.starting",
    "sandbox.running",
    "sandbox.stopped",
    "sandbox.expiring",
    "sandbox.expired",
    "sandbox.deleted",
    "sandbox.error",
    "agent.connected",
    "agent.disconnected",
    "workspace.expired",
    "project.landed",
    "review.opened",
    "review.closed",
    "workspace.refused",
];

/// A durable record that something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Sequence number; greater than that of every earlier event.
    pub id: u64,
    /// Kind of the event.
    #[schema(example = "sandbox.created")]
    pub event: String,
    /// When the event happened.
    pub timestamp: String,
    /// Details, depending on the kind of the event: the state of the sandbox at
    /// that time, the ids of the project, review or workspace, or the paths
    /// that a workspace could not merge.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// A page of events, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events.
    pub items: Vec<Event>,
    /// Value of `after` for the next page.
    pub last: u64,
}
