//! Events, webhooks and deliveries.

use std::fmt;
use std::str::FromStr;

use elevo_core::{AgentId, TenantId, Timestamp, WebhookId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::columns::{Column, Optional, stored};

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum EventKind {
    /// A sandbox can be used for the first time.
    SandboxCreated,
    /// A sandbox begins to start.
    SandboxStarting,
    /// The agent of a sandbox is connected; commands can run.
    SandboxRunning,
    /// A sandbox was stopped, with everything that ran in it.
    SandboxStopped,
    /// A sandbox will be removed within minutes.
    SandboxExpiring,
    /// A sandbox has expired and is being removed. The data states whether its
    /// workspace is parked.
    SandboxExpired,
    /// A sandbox was deleted.
    SandboxDeleted,
    /// A sandbox has failed.
    SandboxError,
    /// The agent of a sandbox has connected.
    AgentConnected,
    /// The agent of a sandbox has lost its connection.
    AgentDisconnected,
    /// A parked workspace has expired and is being deleted.
    WorkspaceExpired,
    /// The head of a project has moved.
    ProjectLanded,
    /// A change is held for review.
    ReviewOpened,
    /// A review was decided, has expired or was superseded.
    ReviewClosed,
    /// An automatic merge of a workspace has left changes out.
    WorkspaceRefused,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::SandboxCreated,
        Self::SandboxStarting,
        Self::SandboxRunning,
        Self::SandboxStopped,
        Self::SandboxExpiring,
        Self::SandboxExpired,
        Self::SandboxDeleted,
        Self::SandboxError,
        Self::AgentConnected,
        Self::AgentDisconnected,
        Self::WorkspaceExpired,
        Self::ProjectLanded,
        Self::ReviewOpened,
        Self::ReviewClosed,
        Self::WorkspaceRefused,
    ];

    /// The name of the kind, as it is stored and sent.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SandboxCreated => "sandbox.created",
            Self::SandboxStarting => "sandbox.starting",
            Self::SandboxRunning => "sandbox.running",
            Self::SandboxStopped => "sandbox.stopped",
            Self::SandboxExpiring => "sandbox.expiring",
            Self::SandboxExpired => "sandbox.expired",
            Self::SandboxDeleted => "sandbox.deleted",
            Self::SandboxError => "sandbox.error",
            Self::AgentConnected => "agent.connected",
            Self::AgentDisconnected => "agent.disconnected",
            Self::WorkspaceExpired => "workspace.expired",
            Self::ProjectLanded => "project.landed",
            Self::ReviewOpened => "review.opened",
            Self::ReviewClosed => "review.closed",
            Self::WorkspaceRefused => "workspace.refused",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<EventKind> for String {
    fn from(kind: EventKind) -> Self {
        kind.name().into()
    }
}

impl FromStr for EventKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is not a kind of event"))
    }
}

impl TryFrom<String> for EventKind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

/// An event that is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct NewEvent {
    /// The tenant of the subject.
    #[sqlx(try_from = "Column<TenantId>")]
    pub tenant: TenantId,
    /// The agent of the sandbox, workspace, landing or review that the event is
    /// about.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// The kind of the event.
    #[sqlx(try_from = "Column<EventKind>")]
    pub kind: EventKind,
    /// Id of the sandbox, workspace or project that the event is about.
    pub subject: String,
    /// Time of the event.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub at: Timestamp,
    /// Details. Times in them are microseconds since 1970.
    #[sqlx(try_from = "Column<Value>")]
    pub data: Value,
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Event {
    /// Its number, greater than that of every earlier event.
    #[sqlx(try_from = "Column<u64>")]
    pub id: u64,
    /// The recorded content.
    #[sqlx(flatten)]
    pub event: NewEvent,
}

/// A filter for events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only events of this tenant.
    pub tenant: Option<TenantId>,
    /// Only events that this agent may see: those of its sandboxes,
    /// workspaces and reviews, and all landings.
    pub agent: Option<AgentId>,
    /// Only events of these kinds; all kinds if empty.
    pub kinds: Vec<EventKind>,
    /// Only events about this sandbox, workspace or project.
    pub subject: Option<String>,
    /// Only events with a greater number than this.
    pub after: u64,
    /// Maximum number of events to return.
    pub limit: u32,
}

/// An address that gets events by HTTP.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Webhook {
    /// Unique id.
    #[sqlx(try_from = "Column<WebhookId>")]
    pub id: WebhookId,
    /// The tenant whose events are delivered; `None` for the events of all
    /// tenants.
    #[sqlx(try_from = "Optional<TenantId>")]
    pub tenant: Option<TenantId>,
    /// The agent that the creating key is bound to. The webhook gets only events
    /// that this agent may see.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// The address that deliveries are sent to.
    pub url: String,
    /// The secret that signs deliveries; if empty, deliveries are not signed.
    pub secret: String,
    /// The secret before the last rotation, which also signs deliveries until
    /// `previous_until`; empty if there is none.
    pub previous_secret: String,
    /// The time at which the previous secret is deleted.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub previous_until: Option<Timestamp>,
    /// Only events of these kinds; all kinds if empty.
    #[sqlx(try_from = "Column<Vec<EventKind>>")]
    pub kinds: Vec<EventKind>,
    /// Time of creation.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
}

/// A change of a webhook. Absent fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookChange {
    /// The new address.
    pub url: Option<String>,
    /// The new kinds of events; all kinds if empty.
    pub kinds: Option<Vec<EventKind>>,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// The delivery is to be tried, for the first time or again.
    Pending,
    /// The receiver has accepted the delivery.
    Delivered,
    /// All attempts have failed.
    Failed,
}

impl DeliveryState {
    /// The name of the state, as it is stored and sent.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

impl FromStr for DeliveryState {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::Pending, Self::Delivered, Self::Failed];
        let found = all.into_iter().find(|state| state.name() == name);
        found.ok_or_else(|| format!("`{name}` is not a state of a delivery"))
    }
}

/// An event that is delivered to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Delivery {
    /// Id of the webhook.
    #[sqlx(try_from = "Column<WebhookId>")]
    pub webhook: WebhookId,
    /// The event to deliver.
    #[sqlx(flatten)]
    pub event: Event,
    /// The state of the delivery.
    #[sqlx(try_from = "Column<DeliveryState>")]
    pub state: DeliveryState,
    /// Number of attempts so far.
    #[sqlx(try_from = "Column<u32>")]
    pub attempts: u32,
    /// Time of the next attempt.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub due: Timestamp,
    /// HTTP status of the response to the last attempt.
    #[sqlx(try_from = "Optional<u16>")]
    pub status: Option<u16>,
    /// Reason why the last attempt failed.
    pub error: Option<String>,
    /// Time of the last attempt, or of queueing.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub updated: Timestamp,
}

/// The outcome of an attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Number of the delivered event.
    pub event: u64,
    /// The state of the delivery after the attempt.
    pub state: DeliveryState,
    /// Number of attempts, including this one.
    pub attempts: u32,
    /// Time of the next attempt.
    pub due: Timestamp,
    /// HTTP status of the response.
    pub status: Option<u16>,
    /// Reason why the attempt failed.
    pub error: Option<String>,
}

stored!(json Vec<EventKind>);
stored!(name DeliveryState);
stored!(name EventKind);
