//! What happened, and who is told.

use std::fmt;
use std::str::FromStr;

use elevo_core::{TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum EventKind {
    /// A sandbox can be used for the first time.
    SandboxCreated,
    /// One begins to start.
    SandboxStarting,
    /// Its agent is connected; commands can run.
    SandboxRunning,
    /// What ran in it was ended.
    SandboxStopped,
    /// It will be removed within minutes.
    SandboxExpiring,
    /// Its time is over; it is being removed. Its data says whether its
    /// workspace is parked.
    SandboxExpired,
    /// Nothing is left of it.
    SandboxDeleted,
    /// It has failed.
    SandboxError,
    /// The agent in a sandbox has connected.
    AgentConnected,
    /// It has lost its connection.
    AgentDisconnected,
    /// A parked workspace was kept for as long as it may be; it is being deleted.
    WorkspaceExpired,
    /// The head of a project has moved.
    ProjectLanded,
    /// A change is held, and waits for a decision.
    ReviewOpened,
    /// It was decided on, or has been superseded.
    ReviewClosed,
    /// An automatic merge of a workspace has left changes out.
    WorkspaceRefused,
}

impl EventKind {
    /// All of them.
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

    /// As it is written.
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
        found.ok_or_else(|| format!("`{name}` is no kind of event"))
    }
}

impl TryFrom<String> for EventKind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

/// Something that is about to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Whose.
    pub tenant: TenantId,
    /// The agent whose sandbox or review it is about.
    pub agent: Option<String>,
    /// What.
    pub kind: EventKind,
    /// The sandbox, workspace or project it is about.
    pub subject: String,
    /// When.
    pub at: Timestamp,
    /// More about it. Times in there are microseconds since 1970.
    pub data: Value,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number: more than that of all that happened before.
    pub id: u64,
    /// What it was.
    pub event: NewEvent,
}

/// Which events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Those of one tenant.
    pub tenant: Option<TenantId>,
    /// Those that an agent may know of: about what is its own, and landings.
    pub agent: Option<String>,
    /// Those of some kinds; all if there are none.
    pub kinds: Vec<EventKind>,
    /// Those about one sandbox or project.
    pub subject: Option<String>,
    /// Those after this one.
    pub after: u64,
    /// At most so many.
    pub limit: u32,
}

/// Somebody who is told of events by HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: String,
    /// Whose events; those of all tenants if there is none.
    pub tenant: Option<TenantId>,
    /// The agent whose key made it, and which it is told no more than.
    pub agent: Option<String>,
    /// Where to.
    pub url: String,
    /// What deliveries are signed with; they are not if it is empty.
    pub secret: String,
    /// Which kinds; all if there are none.
    pub kinds: Vec<EventKind>,
    /// When it was made.
    pub created: Timestamp,
}

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// It is, or will be, tried.
    Pending,
    /// It was taken.
    Delivered,
    /// It was tried as often as it may.
    Failed,
}

impl DeliveryState {
    /// As it is written.
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
        found.ok_or_else(|| format!("`{name}` is no state of a delivery"))
    }
}

/// An event on its way to a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// To whom.
    pub webhook: String,
    /// What.
    pub event: Event,
    /// How far it is.
    pub state: DeliveryState,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried next.
    pub due: Timestamp,
    /// What the last attempt was answered with.
    pub status: Option<u16>,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// When it was tried last, or queued.
    pub updated: Timestamp,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Of which event.
    pub event: u64,
    /// How far it is now.
    pub state: DeliveryState,
    /// How often it was tried by now.
    pub attempts: u32,
    /// When it is tried next.
    pub due: Timestamp,
    /// What it was answered with.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<String>,
}
