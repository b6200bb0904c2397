//! Links to ports of sandboxes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request to create a link to a port of a sandbox.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePortLink {
    /// Seconds until the link expires, 3600 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86400)]
    pub expires_in: Option<u32>,
}

/// A link to a port of a sandbox. Its holder needs no key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortLink {
    /// The address. It is a secret.
    pub url: String,
    /// When the link expires. It ends earlier with the key that created it, and
    /// with the sandbox.
    #[schema(format = DateTime)]
    pub expires_at: String,
}
