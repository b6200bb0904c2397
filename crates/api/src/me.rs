use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{KeyLimits, NetworkMode, Resources, TenantLimits};

/// The key of a request, and what it may do.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Me {
    /// The key.
    pub key: Named,
    /// The tenant of the key.
    pub tenant: Named,
    /// The agent that the key acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Named>,
    /// Scopes of the key.
    pub scopes: Vec<String>,
    /// Limits that apply to requests with the key.
    pub limits: EffectiveLimits,
    /// Resources in use.
    pub usage: Usage,
    /// The part of the limits that is left now. An absent field means that
    /// nothing limits the key.
    pub left: Left,
}

/// An object, by its id and its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Named {
    /// Id of the object.
    pub id: String,
    /// Name of the object.
    pub name: String,
}

/// Limits of a key and of its tenant. An absent limit does not apply.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EffectiveLimits {
    /// Limits of the key.
    pub key: KeyLimits,
    /// Limits of the tenant, with the settings of the server filled in.
    pub tenant: TenantLimits,
}

/// Resources in use.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Number of sandboxes of the key and of all other keys of its agent.
    pub sandboxes: u64,
}

/// The part of the limits that is left now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Left {
    /// Sandboxes that the key may have in addition, as far as the limits of the
    /// key and of its tenant allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<u64>,
    /// Sandboxes that the key may create now. The number grows again over a
    /// minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creates: Option<u32>,
    /// Commands that the key may run now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<u32>,
    /// Other requests that the key may send now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
}

/// The server: its version, its features and the limits that a client needs to
/// know.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    /// Version of the server.
    pub version: String,
    /// Features of the server. A client ignores names that it does not know.
    #[schema(example = json!(["sandboxes", "projects", "metadata"]))]
    pub features: Vec<String>,
    /// Limits of requests and of sandboxes.
    pub limits: ServerLimits,
    /// Networks that sandboxes may use.
    pub networks: Vec<NetworkMode>,
    /// Network of a sandbox whose request does not name one.
    pub default_network: NetworkMode,
    /// OCI runtimes that a request may name.
    pub runtimes: Vec<String>,
    /// OCI runtime of a sandbox whose request does not name one, if it is not the
    /// container engine's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_runtime: Option<String>,
}

/// Limits of requests and of sandboxes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerLimits {
    /// Maximum bytes of a request body in JSON.
    pub body_bytes: u64,
    /// Maximum bytes of a request body with a patch or files.
    pub patch_bytes: u64,
    /// Maximum bytes of an archive.
    pub archive_bytes: u64,
    /// Maximum bytes of an uploaded file.
    pub file_bytes: u64,
    /// Maximum items of a request about several objects, and maximum forks of
    /// one request.
    pub batch: u32,
    /// Maximum sandboxes on the server.
    pub sandboxes: u32,
    /// Maximum seconds from the creation of a sandbox to its expiry.
    pub lifetime_seconds: u64,
    /// Maximum resources of a sandbox.
    pub resources: Resources,
}
