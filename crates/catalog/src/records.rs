//! What a catalog keeps, as its callers see it.

mod event;
mod landing;
mod project;
mod retention;
mod review;
mod tag;
mod version;
mod workspace;

use elevo_core::{SandboxState, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::query::Position;

pub use event::{
    Attempt, Delivery, DeliveryState, Event, EventKind, EventQuery, NewEvent, Webhook,
};
pub use landing::{BaseMove, Landed, LandedStep, Landing, LandingKind, LogEntry, ReviewStep, Step};
pub use project::{Project, ProjectChange, ProjectPolicy, ProjectQuery};
pub(crate) use retention::Earlier;
pub use retention::{Retention, Unkept, UnkeptQuery};
pub use review::{Review, ReviewChange, ReviewQuery, ReviewState, Sides};
pub use tag::Tag;
pub use version::{FileVersion, PathChange, VersionKind};
pub use workspace::{Unsettled, Workspace, WorkspaceChange, WorkspaceQuery, WorkspaceState};

/// The owner of agents, keys and sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its identity.
    pub id: TenantId,
    /// What people call it; no other tenant is called so.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// How much it may have.
    pub limits: TenantLimits,
    /// Since when its keys are refused.
    pub suspended: Option<Timestamp>,
    /// Since when it is being erased, which nothing takes back.
    pub erasing: Option<Timestamp>,
}

impl Tenant {
    /// A tenant with the limits of the server.
    pub fn new(id: TenantId, name: impl Into<String>, created: Timestamp) -> Self {
        Self {
            id,
            name: name.into(),
            created,
            limits: TenantLimits::default(),
            suspended: None,
            erasing: None,
        }
    }
}

/// The name of the setting that has the limits of tenants without their own.
pub const TENANT_LIMITS: &str = "tenant-limits";

/// How much a tenant may have. An absent limit of a tenant is that of the
/// setting [`TENANT_LIMITS`]; one that is absent there as well is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantLimits {
    /// Sandboxes that are there at one time.
    pub sandboxes: Option<u32>,
    /// Bytes of memory of all its sandboxes.
    pub memory: Option<u64>,
    /// Bytes of disk of all its sandboxes.
    pub disk: Option<u64>,
    /// Bytes of all its objects in the store, about.
    pub stored: Option<u64>,
    /// Workspaces, in sandboxes and without.
    pub workspaces: Option<u32>,
    /// Projects.
    pub projects: Option<u32>,
    /// Requests of all its keys in a minute.
    pub requests_per_minute: Option<u32>,
    /// Container runtimes that its sandboxes may name.
    pub runtimes: Option<Vec<String>>,
    /// Networks that its sandboxes may have.
    pub networks: Option<Vec<String>>,
}

impl TenantLimits {
    /// These, and those of `other` where these are absent.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            sandboxes: self.sandboxes.or(other.sandboxes),
            memory: self.memory.or(other.memory),
            disk: self.disk.or(other.disk),
            stored: self.stored.or(other.stored),
            workspaces: self.workspaces.or(other.workspaces),
            projects: self.projects.or(other.projects),
            requests_per_minute: self.requests_per_minute.or(other.requests_per_minute),
            runtimes: self.runtimes.clone().or_else(|| other.runtimes.clone()),
            networks: self.networks.clone().or_else(|| other.networks.clone()),
        }
    }
}

/// A principal inside a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its id; no other agent of the tenant has it.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// What people call it; no other agent of the tenant is called so.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
}

/// Something that proves who asks. Of the secret only a hash is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Its id; no other key of the tenant has it.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// The agent it is bound to, if any.
    pub agent: Option<String>,
    /// What people call it.
    pub name: String,
    /// Hash of the secret; see [`crate::secret`].
    pub hash: [u8; 32],
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// How much it may be used.
    pub limits: KeyLimits,
    /// When it was made.
    pub created: Timestamp,
    /// From when on it is no longer valid.
    pub expires: Option<Timestamp>,
    /// When somebody took it back.
    pub revoked: Option<Timestamp>,
}

/// How much a key may be used. `None` is without limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyLimits {
    /// Sandboxes made in a minute.
    pub creates_per_minute: Option<u32>,
    /// Commands started in a minute.
    pub commands_per_minute: Option<u32>,
    /// Requests of any kind in a minute.
    pub requests_per_minute: Option<u32>,
    /// Sandboxes that are there at one time.
    pub sandboxes: Option<u32>,
    /// Container runtimes that its sandboxes may name.
    pub runtimes: Option<Vec<String>>,
    /// Networks that its sandboxes may have.
    pub networks: Option<Vec<String>>,
}

/// A container with a workspace, or what is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Its id; no other sandbox of any tenant has it.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// The agent that works in it, if one is named.
    pub agent: Option<String>,
    /// The key it was made with.
    pub key: String,
    /// What people call it. Several may be called the same.
    pub name: Option<String>,
    /// Where it is in its life.
    pub state: SandboxState,
    /// Why it is in that state, in words for people. Made to fit: cut to
    /// [`MAX_REASON_BYTES`](crate::MAX_REASON_BYTES), NUL replaced.
    pub reason: Option<String>,
    /// The template it was made from.
    pub template: String,
    /// Its container, as the runtime calls it.
    pub container: Option<String>,
    /// Its workspace.
    pub workspace: String,
    /// Hash of the token its agent proves itself with.
    pub token_hash: [u8; 32],
    /// When it was made.
    pub created: Timestamp,
    /// From when on it may be removed.
    pub expires: Timestamp,
    /// When something of this was last changed.
    pub updated: Timestamp,
    /// Whether it is being removed. There is no way back.
    pub removing: bool,
    /// Whether its workspace stays when it is removed.
    pub keep_workspace: bool,
    /// What was asked for, as the caller writes it.
    pub spec: Value,
}

impl Sandbox {
    /// Where it stands in a list; see [`SandboxQuery`](crate::SandboxQuery).
    pub fn position(&self) -> Position {
        Position {
            created: self.created,
            id: self.id.clone(),
        }
    }
}

/// An image that sandboxes start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// What people call it; there is one of that name.
    pub name: String,
    /// The image.
    pub image: String,
    /// What is in it, in words for people.
    pub description: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Bytes that the image takes.
    pub size: u64,
    /// Whether its sandboxes may write outside their workspace.
    pub writable_root: bool,
    /// When it was made.
    pub created: Timestamp,
}
