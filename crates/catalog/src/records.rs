//! The records of a catalog, as callers see them.

mod access;
mod command;
mod event;
mod landing;
mod project;
mod request;
mod retention;
mod review;
mod roots;
mod snapshot;
mod tag;
mod version;
mod workspace;

use std::collections::BTreeMap;

use elevo_core::{
    AgentId, KeyId, ProjectId, SandboxId, SandboxState, TenantId, Timestamp, WorkspaceId,
};
use elevo_objects::SnapshotId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::columns::{Column, Optional, stored};
use crate::nodes::NodeId;
use crate::query::Position;

pub use access::Access;
pub(crate) use access::access_columns;
pub use command::{Claimed, CommandClaim};
pub use event::{
    Attempt, Delivery, DeliveryState, Event, EventKind, EventQuery, NewEvent, Webhook,
    WebhookChange,
};
pub use landing::{BaseMove, Landed, LandedStep, Landing, LandingKind, LogEntry, ReviewStep, Step};
pub use project::{Project, ProjectChange, ProjectPolicy, ProjectQuery};
pub use request::{Begun, IdempotentRequest, RequestRun};
pub(crate) use retention::ReplacedVersion;
pub use retention::{Retention, Unkept, UnkeptQuery};
pub use review::{Review, ReviewChange, ReviewQuery, ReviewState, Sides};
pub(crate) use roots::WalkPart;
pub use roots::{RootPlace, Roots};
pub use snapshot::{ClientSnapshot, SnapshotQuery};
pub use tag::Tag;
pub use version::{FileVersion, PathChange, VersionKind};
pub use workspace::{
    Unsettled, Workspace, WorkspaceChange, WorkspaceFiles, WorkspaceQuery, WorkspaceState,
};

/// The owner of agents, keys and sandboxes.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Tenant {
    /// Unique id.
    #[sqlx(try_from = "Column<TenantId>")]
    pub id: TenantId,
    /// Display name, unique among tenants.
    pub name: String,
    /// Time of creation.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
    /// The tenant's own limits.
    #[sqlx(try_from = "Column<TenantLimits>")]
    pub limits: TenantLimits,
    /// Time since which its keys are rejected.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub suspended: Option<Timestamp>,
    /// Time since which it is being erased, permanently.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub erasing: Option<Timestamp>,
}

impl Tenant {
    /// Creates a tenant with the default limits of the server.
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

/// Name of the setting with the limits of tenants that have no limit of their
/// own.
pub const TENANT_LIMITS: &str = "tenant-limits";

/// Limits on the resources of a tenant. A limit that is `None` here is taken from
/// the setting [`TENANT_LIMITS`]; if it is `None` there too, nothing is limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantLimits {
    /// Maximum number of sandboxes at one time.
    pub sandboxes: Option<u32>,
    /// Maximum bytes of memory of all sandboxes together.
    pub memory: Option<u64>,
    /// Maximum bytes of disk of all sandboxes together.
    pub disk: Option<u64>,
    /// Approximate maximum bytes of all objects in the store.
    pub stored: Option<u64>,
    /// Maximum number of workspaces, with and without a sandbox.
    pub workspaces: Option<u32>,
    /// Maximum number of projects.
    pub projects: Option<u32>,
    /// Maximum requests per minute of all keys together.
    pub requests_per_minute: Option<u32>,
    /// Container runtimes that sandboxes may use.
    pub runtimes: Option<Vec<String>>,
    /// Networks that sandboxes may use.
    pub networks: Option<Vec<String>>,
}

impl TenantLimits {
    /// Returns these limits; a limit that is `None` is taken from `other`.
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

/// A named program that works for a tenant.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Agent {
    /// Id, unique in the tenant.
    #[sqlx(try_from = "Column<AgentId>")]
    pub id: AgentId,
    /// The tenant it belongs to.
    #[sqlx(try_from = "Column<TenantId>")]
    pub tenant: TenantId,
    /// Display name, unique in the tenant.
    pub name: String,
    /// Time of creation.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
}

/// A key that authenticates a client. Only a hash of its secret is stored.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ApiKey {
    /// Id, unique in the tenant.
    #[sqlx(try_from = "Column<KeyId>")]
    pub id: KeyId,
    /// The tenant it belongs to.
    #[sqlx(try_from = "Column<TenantId>")]
    pub tenant: TenantId,
    /// The agent that the key is bound to, if any.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// Display name.
    pub name: String,
    /// Hash of the secret; see [`crate::secret`].
    #[sqlx(try_from = "Column<[u8; 32]>")]
    pub hash: [u8; 32],
    /// Scopes that the key may use.
    #[sqlx(try_from = "Column<Vec<String>>")]
    pub scopes: Vec<String>,
    /// Limits on the use of the key.
    #[sqlx(try_from = "Column<KeyLimits>")]
    pub limits: KeyLimits,
    /// Time of creation.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
    /// Time from which the key is invalid.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub expires: Option<Timestamp>,
    /// Time at which the key was revoked.
    #[sqlx(try_from = "Optional<Timestamp>")]
    pub revoked: Option<Timestamp>,
}

/// Limits on the use of a key. `None` means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyLimits {
    /// Maximum sandboxes created per minute.
    pub creates_per_minute: Option<u32>,
    /// Maximum commands started per minute.
    pub commands_per_minute: Option<u32>,
    /// Maximum requests of any kind per minute.
    pub requests_per_minute: Option<u32>,
    /// Maximum number of sandboxes at one time.
    pub sandboxes: Option<u32>,
    /// Container runtimes that sandboxes may use.
    pub runtimes: Option<Vec<String>>,
    /// Networks that sandboxes may use.
    pub networks: Option<Vec<String>>,
}

/// The kind of a failure that a sandbox can recover from.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum SandboxFailure {
    /// The workspace agent does not answer; the container may still run.
    AgentLost,
    /// The container ended without a request. Its files remain.
    ContainerEnded,
}

stored!(variant SandboxFailure);

/// A sandbox: a container with a workspace. The record outlives the container.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Sandbox {
    /// Id, unique among the sandboxes of all tenants.
    #[sqlx(try_from = "Column<SandboxId>")]
    pub id: SandboxId,
    /// The tenant it belongs to.
    #[sqlx(try_from = "Column<TenantId>")]
    pub tenant: TenantId,
    /// The agent that works in it, if one is named.
    #[sqlx(try_from = "Optional<AgentId>")]
    pub agent: Option<AgentId>,
    /// The key it was created with.
    #[sqlx(rename = "api_key", try_from = "Column<KeyId>")]
    pub key: KeyId,
    /// Display name; need not be unique.
    pub name: Option<String>,
    /// State of its life cycle.
    #[sqlx(try_from = "Column<SandboxState>")]
    pub state: SandboxState,
    /// Reason for the state, for people. Truncated to
    /// [`MAX_REASON_BYTES`](crate::MAX_REASON_BYTES), with NUL replaced.
    pub reason: Option<String>,
    /// The kind of its failure, in the state `error`; `None` for a failure that
    /// it cannot recover from.
    #[sqlx(try_from = "Optional<SandboxFailure>")]
    pub failure: Option<SandboxFailure>,
    /// The template it was created from.
    pub template: String,
    /// Id of its container in the runtime.
    pub container: Option<String>,
    /// Id of its workspace.
    #[sqlx(try_from = "Column<WorkspaceId>")]
    pub workspace: WorkspaceId,
    /// Hash of the token that the workspace agent authenticates with.
    #[sqlx(try_from = "Column<[u8; 32]>")]
    pub token_hash: [u8; 32],
    /// Time of creation.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
    /// Time from which it may be removed.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub expires: Timestamp,
    /// Time of the last change of this record.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub updated: Timestamp,
    /// Whether it is being removed, which cannot be undone.
    pub removing: bool,
    /// Whether its workspace is kept when it is removed.
    pub keep_workspace: bool,
    /// Whether it was started before; `false` during its first start.
    pub started_before: bool,
    /// The node that it runs on.
    #[sqlx(try_from = "Column<NodeId>")]
    pub node: NodeId,
    /// How often it has got a node, starting at 1. A change that the server of an
    /// earlier node makes is rejected by it.
    #[sqlx(try_from = "Column<u64>")]
    pub generation: u64,
    /// The requested specification. The catalog only reads its `memory` and
    /// `disk`, for the limits of tenants.
    #[sqlx(try_from = "Column<Value>")]
    pub spec: Value,
    /// Pairs that a client labels it with.
    #[sqlx(try_from = "Column<BTreeMap<String, String>>")]
    pub metadata: BTreeMap<String, String>,
    /// The project of its workspace. Read from the record of the workspace, and
    /// never written.
    #[sqlx(try_from = "Optional<ProjectId>")]
    pub project: Option<ProjectId>,
    /// The base of its workspace. Read from the record of the workspace, and
    /// never written.
    #[sqlx(try_from = "Optional<SnapshotId>")]
    pub base: Option<SnapshotId>,
}

impl Sandbox {
    /// Its position in a list; see [`SandboxQuery`](crate::SandboxQuery).
    pub fn position(&self) -> Position {
        Position {
            created: self.created,
            id: self.id.to_string(),
        }
    }
}

/// An image that sandboxes start from.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Template {
    /// Display name, unique.
    pub name: String,
    /// Reference of the image.
    pub image: String,
    /// Description for people.
    pub description: Option<String>,
    /// Keywords to find it by.
    #[sqlx(try_from = "Column<Vec<String>>")]
    pub tags: Vec<String>,
    /// Size of the image in bytes.
    #[sqlx(try_from = "Column<u64>")]
    pub size: u64,
    /// Whether its sandboxes may write outside their workspace.
    pub writable_root: bool,
    /// Time of creation.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub created: Timestamp,
}

stored!(json KeyLimits);
stored!(json TenantLimits);
