use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::NetworkMode;

/// What a key may be used for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
pub enum Scope {
    /// See sandboxes, their logs, usage and differences.
    #[serde(rename = "sandboxes:read")]
    SandboxesRead,
    /// Make, change, fork, snapshot and delete sandboxes.
    #[serde(rename = "sandboxes:write")]
    SandboxesWrite,
    /// Run commands and open terminals.
    #[serde(rename = "process")]
    Process,
    /// Move files of workspaces in and out as archives.
    #[serde(rename = "files")]
    Files,
    /// Start from a directory of the server's machine.
    #[serde(rename = "host")]
    Host,
    /// Add and remove templates.
    #[serde(rename = "templates:write")]
    TemplatesWrite,
    /// Make, list and revoke keys and agents of the tenant.
    #[serde(rename = "keys")]
    Keys,
    /// See projects, their files and history, and workspaces.
    #[serde(rename = "projects:read")]
    ProjectsRead,
    /// Make workspaces on projects, and merge.
    #[serde(rename = "projects:write")]
    ProjectsWrite,
    /// Make and delete projects, and set their policies.
    #[serde(rename = "projects:admin")]
    ProjectsAdmin,
    /// Decide on changes that wait for review.
    #[serde(rename = "reviews")]
    Reviews,
    /// Be told of events by HTTP.
    #[serde(rename = "webhooks")]
    Webhooks,
    /// Statistics of the whole server, and clearing away.
    #[serde(rename = "system")]
    System,
}

impl Scope {
    /// All of them.
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

    /// What an ordinary key may do.
    pub const ORDINARY: [Self; 6] = [
        Self::SandboxesRead,
        Self::SandboxesWrite,
        Self::Process,
        Self::Files,
        Self::ProjectsRead,
        Self::ProjectsWrite,
    ];

    /// Its name.
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
            format!("`{text}` is no scope; there are {names}")
        })
    }
}

/// How much a key may be used; what is absent has no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyLimits {
    /// Sandboxes made in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creates_per_minute: Option<u32>,
    /// Commands run in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands_per_minute: Option<u32>,
    /// Other requests in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Sandboxes at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<u32>,
    /// Container runtimes that its sandboxes may name, of those that the server
    /// and the tenant allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtimes: Option<Vec<String>>,
    /// Networks that its sandboxes may have, of those that the server and the
    /// tenant allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<NetworkMode>>,
}

/// How much a tenant may have. An absent limit is that of the server's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantLimits {
    /// Sandboxes at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<u32>,
    /// Memory of all its sandboxes, as `16g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Disk of all its sandboxes, as `100g`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Files of all its projects and snapshots with their history, as `500g`:
    /// each part once, and compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<String>,
    /// Workspaces, in sandboxes and without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<u32>,
    /// Projects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projects: Option<u32>,
    /// Requests of all its keys in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Container runtimes that its sandboxes may name, of those that the server
    /// allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtimes: Option<Vec<String>>,
    /// Networks that its sandboxes may have, of those that the server allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<NetworkMode>>,
}

/// A wish for a key.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateKey {
    /// What it is for.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// What it may do; by default what an ordinary user needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Scope>>,
    /// The agent that it acts for, and whose sandboxes are all it sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its limits; by default those of the server's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<KeyLimits>,
    /// After how many seconds it is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315360000)]
    pub expires_in_seconds: Option<u32>,
}

/// A key, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// Its id.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// The agent that it acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its limits.
    pub limits: KeyLimits,
    /// When it was made.
    pub created_at: String,
    /// When it becomes void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// A key that was just made: the only answer with its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewKey {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// What to send; absent where the answer is repeated for the same
    /// `Idempotency-Key`, since it is kept nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The keys of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    /// All of them, revoked ones too.
    pub items: Vec<Key>,
}

/// A wish for an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateAgent {
    /// Its name.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
}

/// A principal inside a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When it was added.
    pub created_at: String,
}

/// The agents of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentList {
    /// All of them.
    pub items: Vec<Agent>,
}

/// A wish for a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTenant {
    /// Its name.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// How much it may have.
    #[serde(default)]
    pub limits: TenantLimits,
}

/// A change of a tenant. Absent fields stay as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeTenant {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// Other limits, which replace all that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<TenantLimits>,
    /// Whether its keys are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
}

/// An owner of keys, snapshots and sandboxes. Nothing crosses tenants.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When it was added.
    pub created_at: String,
    /// How much it may have.
    pub limits: TenantLimits,
    /// Since when its keys are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_at: Option<String>,
    /// Since when it is being erased. It is gone from the list when that is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erasing_since: Option<String>,
}

/// A tenant that was just added, with the key of its owner.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewTenant {
    /// The tenant.
    #[serde(flatten)]
    pub tenant: Tenant,
    /// The secret of its owner's key; absent where the answer is repeated for
    /// the same `Idempotency-Key`, since it is kept nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// All tenants.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TenantList {
    /// In the order they were added.
    pub items: Vec<Tenant>,
}
