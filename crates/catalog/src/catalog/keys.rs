use async_trait::async_trait;
use elevo_core::{KeyId, SandboxId, TenantId, Timestamp};

use crate::error::Result;
use crate::records::{Access, ApiKey};

/// API keys. A key changes only by its revocation and is deleted with its tenant.
#[async_trait]
pub trait Keys {
    /// Adds a key. `Exists` if the tenant has a key with that id, or any tenant
    /// has one with that hash; `NotFound` if its tenant or agent does not exist,
    /// `LimitReached` if the tenant has [`MAX_LISTED`](crate::MAX_LISTED) keys.
    async fn add_key(&self, key: &ApiKey) -> Result<()>;

    /// Returns the key of any tenant with that hash, for callers that authenticate
    /// with the key. Includes revoked and
    /// expired keys, so that the caller can report why a key is not valid.
    async fn key_of_any_tenant(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>>;

    /// Returns the key of any tenant with that hash, as
    /// [`key_of_any_tenant`](Self::key_of_any_tenant) does, with its tenant and a
    /// sandbox of that tenant by id, if one is asked for. A database on another
    /// machine answers in one round trip.
    async fn access_of_any_tenant(
        &self,
        hash: &[u8; 32],
        sandbox: Option<&SandboxId>,
    ) -> Result<Option<Access>>;

    /// Returns a tenant's key by id, including a revoked or expired one.
    async fn key(&self, tenant: TenantId, id: &KeyId) -> Result<Option<ApiKey>>;

    /// Returns all keys of a tenant, including revoked and expired ones, oldest
    /// first: by time of creation, then by id.
    async fn keys(&self, tenant: TenantId) -> Result<Vec<ApiKey>>;

    /// Revokes a key. Returns `false` if it does not exist or was already
    /// revoked; then the time of the first revocation stays.
    async fn revoke_key(&self, tenant: TenantId, id: &KeyId, at: Timestamp) -> Result<bool>;
}
