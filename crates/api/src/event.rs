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
    pub kind: String,
    /// When the event happened.
    pub timestamp: String,
    /// Details, depending on the kind of the event.
    #[schema(value_type = EventData)]
    pub data: Value,
}

/// The details of an event. A client must accept fields that it does not know.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum EventData {
    /// Of the events `sandbox.*` and `agent.*`.
    Sandbox(SandboxEvent),
    /// Of `workspace.expired`.
    Expired(WorkspaceExpired),
    /// Of `workspace.refused`.
    Refused(WorkspaceRefused),
    /// Of `review.*`.
    Review(ReviewEvent),
    /// Of `project.landed`.
    Landed(ProjectLanded),
}

/// The details of `sandbox.*` and `agent.*`: the sandbox at that time.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxEvent {
    /// Id of the sandbox.
    pub sandbox_id: String,
    /// Name of the sandbox.
    pub name: Option<String>,
    /// State of the sandbox.
    pub state: String,
    /// Reason for the state.
    pub reason: Option<String>,
    /// The template that the sandbox was created from.
    pub template: String,
    /// When the sandbox was created.
    pub created_at: String,
    /// When the sandbox expires and is deleted.
    pub expires_at: String,
    /// Id of the workspace; only in `sandbox.expired`.
    pub workspace: Option<String>,
    /// Whether the workspace is parked; only in `sandbox.expired`.
    pub parked: Option<bool>,
}

/// The details of `workspace.expired`: the workspace, which is being deleted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceExpired {
    /// Id of the workspace.
    pub workspace: String,
    /// Id of the project, if the workspace belongs to one.
    pub project: Option<String>,
    /// Name of the workspace.
    pub name: Option<String>,
    /// When the workspace was created.
    pub created_at: String,
    /// When the workspace expired.
    pub expires_at: Option<String>,
}

/// The details of `workspace.refused`: an automatic merge left changes out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRefused {
    /// Id of the project.
    pub project: String,
    /// Id of the workspace.
    pub workspace: String,
    /// Number of refused changes.
    pub refused_count: u64,
    /// The first refused changes.
    pub refused: Vec<crate::FileRefused>,
}

/// The details of `review.opened` and `review.closed`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewEvent {
    /// Id of the project.
    pub project: String,
    /// Id of the review.
    pub review: String,
    /// Id of the workspace whose change is held.
    pub workspace: Option<String>,
    /// Kind of the conflict.
    pub kind: String,
    /// State of the review.
    pub state: String,
}

/// The details of `project.landed`: the head of a project has moved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectLanded {
    /// Id of the project.
    pub project: String,
    /// Number of the step.
    pub step: u64,
}

/// The data of an item in a stream of events.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum EventItem {
    /// An event.
    Event(Event),
    /// Of the item `gap`: events that the client asked for were deleted.
    Gap(EventGap),
    /// Of the last item, `stopping`, if the stream ends because the server
    /// stops.
    Stopping {
        /// How to reconnect.
        message: String,
    },
    /// Of the last item, `error`, if the stream failed.
    Error {
        /// The failure.
        error: crate::ErrorBody,
    },
}

/// Some events that the client asked for were deleted, because the server keeps
/// events for a limited time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventGap {
    /// The server has all events of the tenant with this id or a greater one.
    pub oldest: u64,
}

/// A page of events, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events.
    pub items: Vec<Event>,
    /// Cursor of the next page. Always present: a client that requests it again
    /// later gets the events that happened since.
    pub next: String,
    /// Present if events after the cursor of the request were deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<EventGap>,
}
