use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::NetworkMode;

/// An area of the API that a key may use.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub enum Scope {
    /// Read sandboxes, their logs, usage and diffs.
    #[serde(rename = "sandboxes:read")]
    SandboxesRead,
    /// Create, change, fork, snapshot and delete sandboxes.
    #[serde(rename = "sandboxes:write")]
    SandboxesWrite,
    /// Run commands, open terminals and use ports.
    #[serde(rename = "process")]
    Process,
    /// Upload and download files of workspaces as archives.
    #[serde(rename = "files")]
    Files,
    /// Use directories and git repositories on the server's machine as sources.
    #[serde(rename = "host")]
    Host,
    /// Add and delete templates.
    #[serde(rename = "templates:write")]
    TemplatesWrite,
    /// Create, list and revoke keys and agents of the tenant.
    #[serde(rename = "keys")]
    Keys,
    /// Read projects, their files and history, and workspaces.
    #[serde(rename = "projects:read")]
    ProjectsRead,
    /// Create workspaces on projects, and merge them.
    #[serde(rename = "projects:write")]
    ProjectsWrite,
    /// Create and delete projects, and set their policies.
    #[serde(rename = "projects:admin")]
    ProjectsAdmin,
    /// Decide open reviews.
    #[serde(rename = "reviews")]
    Reviews,
    /// Create, list and delete webhooks, and list and repeat their deliveries.
    #[serde(rename = "webhooks")]
    Webhooks,
    /// Read statistics of the whole server, and collect garbage.
    #[serde(rename = "system")]
    System,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 13] = [
        Self::SandboxesRead,
        Self::SandboxesWrite,
        Self::Process,
        Self::Files,
        Self::Host,
        Self::TemplatesWrite,
        Self::Keys,
        Self::ProjectsRead,
        Self::ProjectsWrite,
        Self::ProjectsAdmin,
        Self::Reviews,
        Self::Webhooks,
        Self::System,
    ];

    /// Scopes of a key that is created without a list of scopes.
    pub const ORDINARY: [Self; 6] = [
        Self::SandboxesRead,
        Self::SandboxesWrite,
        Self::Process,
        Self::Files,
        Self::ProjectsRead,
        Self::ProjectsWrite,
    ];

    /// Name of the scope on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SandboxesRead => "sandboxes:read",
            Self::SandboxesWrite => "sandboxes:write",
            Self::Process => "process",
            Self::Files => "files",
            Self::Host => "host",
            Self::TemplatesWrite => "templates:write",
            Self::Keys => "keys",
            Self::ProjectsRead => "projects:read",
            Self::ProjectsWrite => "projects:write",
            Self::ProjectsAdmin => "projects:admin",
            Self::Reviews => "reviews",
            Self::Webhooks => "webhooks",
            Self::System => "system",
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is not a scope; the scopes are {names}")
        })
    }
}

/// Limits on the use of a key. An absent limit does not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyLimits {
    /// Maximum sandboxes created per minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creates_per_minute: Option<u32>,
    /// Maximum commands run per minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands_per_minute: Option<u32>,
    /// Maximum requests per minute that neither create sandboxes nor run
    /// commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Maximum sandboxes at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<u32>,
    /// Container runtimes that sandboxes of this key may use, among those that
    /// the server and the tenant allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtimes: Option<Vec<String>>,
    /// Networks that sandboxes of this key may use, among those that the server
    /// and the tenant allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<NetworkMode>>,
}

/// Quotas of a tenant. The server's setting applies where a limit is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantLimits {
    /// Maximum sandboxes at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<u32>,
    /// Maximum memory of all sandboxes together, such as `16g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Maximum disk space of all sandboxes together, such as `100g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Maximum size of all projects and snapshots with their history, such as
    /// `500g`. Counts compressed data, and shared content once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<String>,
    /// Maximum workspaces, with and without a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<u32>,
    /// Maximum projects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projects: Option<u32>,
    /// Maximum requests per minute of all keys together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Container runtimes that the tenant's sandboxes may use, among those that
    /// the server allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtimes: Option<Vec<String>>,
    /// Networks that the tenant's sandboxes may use, among those that the
    /// server allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<NetworkMode>>,
}

/// Request to create a key.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateKey {
    /// Name of the key.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Scopes of the key. Default: `sandboxes:read`, `sandboxes:write`,
    /// `process`, `files`, `projects:read` and `projects:write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
    /// The agent that the key acts for, by id or name. The key sees only
    /// sandboxes of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Limits of the key; the server's settings by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<KeyLimits>,
    /// Seconds until the key expires. By default, the key never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315360000)]
    pub expires_in_seconds: Option<u32>,
}

/// A key, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// Id of the key.
    pub id: String,
    /// Name of the key.
    pub name: String,
    /// Scopes of the key.
    pub scopes: Vec<String>,
    /// The agent that the key acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Limits of the key.
    pub limits: KeyLimits,
    /// When the key was created.
    pub created_at: String,
    /// When the key expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When the key was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// A new key. This is the only response with the key's secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewKey {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// The secret to send with requests. The server does not store the secret,
    /// so the response to a retry with the same `Idempotency-Key` does not have
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A page of the keys of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeyPage {
    /// The keys, oldest first, including revoked ones.
    pub items: Vec<Key>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Request to create an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateAgent {
    /// Name of the agent, unique in its tenant.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
}

/// A named program that works in workspaces of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Id of the agent.
    pub id: String,
    /// Name of the agent.
    pub name: String,
    /// When the agent was created.
    pub created_at: String,
}

/// A page of the agents of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentPage {
    /// The agents, oldest first.
    pub items: Vec<Agent>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Request to create a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTenant {
    /// Name of the tenant.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// Quotas of the tenant.
    #[serde(default)]
    pub limits: TenantLimits,
}

/// Changes to a tenant. Absent fields stay as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeTenant {
    /// New name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// New limits, which replace all current limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<TenantLimits>,
    /// Whether to suspend the tenant: the server then denies requests with its
    /// keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
}

/// An owner of keys, snapshots and sandboxes. Tenants are isolated from each
/// other.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Id of the tenant.
    pub id: String,
    /// Name of the tenant.
    pub name: String,
    /// When the tenant was created.
    pub created_at: String,
    /// Quotas of the tenant.
    pub limits: TenantLimits,
    /// When the tenant was suspended. Absent if the tenant is not suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_at: Option<String>,
    /// When the erasure of the tenant began. The tenant leaves the list when
    /// the erasure is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasing_since: Option<String>,
}

/// A new tenant, with the key of its owner.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewTenant {
    /// The tenant.
    #[serde(flatten)]
    pub tenant: Tenant,
    /// The secret of the owner's key. The server does not store the secret, so
    /// the response to a retry with the same `Idempotency-Key` does not have
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A page of tenants.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TenantPage {
    /// The tenants, oldest first.
    pub items: Vec<Tenant>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
