use std::collections::BTreeMap;

use async_trait::async_trait;
use elevo_core::{KeyId, SandboxId, SandboxState, TenantId, Timestamp, WorkspaceId};

use crate::change::SandboxChange;
use crate::error::Result;
use crate::nodes::NodeId;
use crate::query::{AddLimits, Page, SandboxQuery};
use crate::records::Sandbox;

/// Sandboxes.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps this one:
///
/// 6. *States change only as [`SandboxState::can_become`] allows*. A sandbox that
///    is being removed cannot start, and its removal cannot be undone.
///
/// A sandbox that is being removed counts towards no limit.
#[async_trait]
pub trait Sandboxes {
    /// Adds a sandbox and records the event that it starts. `Exists` if any
    /// tenant has a sandbox with that id, or the tenant has another sandbox with
    /// that workspace; `NameTaken` if another sandbox of the tenant has the
    /// name and is not being removed; `NotFound` for the owner if its tenant, agent or key does
    /// not exist or its tenant is being erased; `LimitReached` if `limits` or a
    /// limit of the tenant would be exceeded.
    async fn add_sandbox(&self, sandbox: &Sandbox, limits: AddLimits) -> Result<()>;

    /// Adds up to [`MAX_BATCH`](crate::MAX_BATCH) sandboxes, all or none, as
    /// [`add_sandbox`](Self::add_sandbox) does.
    async fn add_sandboxes(&self, sandboxes: &[Sandbox], limits: AddLimits) -> Result<()>;

    /// Returns a tenant's sandbox by id.
    async fn sandbox(&self, tenant: TenantId, id: &SandboxId) -> Result<Option<Sandbox>>;

    /// Returns a tenant's sandbox by name. A sandbox that is being removed has no
    /// name.
    async fn sandbox_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Sandbox>>;

    /// Returns a sandbox of any tenant by id: for callers that authenticate with
    /// the token of the sandbox.
    async fn sandbox_of_any_tenant(&self, id: &SandboxId) -> Result<Option<Sandbox>>;

    /// Returns the sandbox that a tenant's workspace is in, including one that is
    /// being removed.
    async fn sandbox_of_workspace(
        &self,
        tenant: TenantId,
        workspace: &WorkspaceId,
    ) -> Result<Option<Sandbox>>;

    /// Returns a page of sandboxes, newest first.
    async fn sandboxes(&self, query: &SandboxQuery) -> Result<Page<Sandbox>>;

    /// Returns at most `limit` sandboxes of a node, of all tenants, that have
    /// expired at `now` and are not being removed, earliest expiry first.
    async fn expired_sandboxes_of_all_tenants(
        &self,
        node: NodeId,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Sandbox>>;

    /// Changes a sandbox if it is in a state that `change` expects, and records
    /// the events of `change`; returns the changed sandbox. Otherwise `NotFound`,
    /// `Changed` if it has another generation, `WrongState`, `Removing` or
    /// `NameTaken`.
    async fn change_sandbox(
        &self,
        tenant: TenantId,
        id: &SandboxId,
        change: &SandboxChange,
        now: Timestamp,
    ) -> Result<Sandbox>;

    /// Deletes a sandbox and records the event of the deletion; returns `false`
    /// if there is none.
    async fn remove_sandbox(
        &self,
        tenant: TenantId,
        id: &SandboxId,
        now: Timestamp,
    ) -> Result<bool>;

    /// Counts the sandboxes of a key and of all other keys of its agent, except
    /// those that are being removed.
    async fn count_of_key(&self, tenant: TenantId, key: &KeyId) -> Result<u64>;

    /// Counts the sandboxes in each state, of one tenant or of all, except those
    /// that are being removed. Every state has an entry.
    async fn count_by_state(&self, tenant: Option<TenantId>)
    -> Result<BTreeMap<SandboxState, u64>>;
}
