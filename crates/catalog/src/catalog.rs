//! The [`Catalog`] trait. Each database is one implementation, and `conformance`
//! tests every implementation against the promises made here.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use elevo_core::{SandboxState, TenantId, Timestamp};

use crate::change::SandboxChange;
use crate::error::Result;
use crate::events::Events;
use crate::projects::Projects;
use crate::query::{AddLimits, Page, SandboxQuery};
use crate::records::{Agent, ApiKey, Sandbox, Template, Tenant};
use crate::request::{Begun, IdempotentRequest, RequestRun};

/// Tenants, agents, keys, sandboxes, templates, idempotent requests, settings;
/// [`Projects`] and [`Events`].
///
/// Every implementation keeps these promises:
///
/// 1. *Acknowledged means durable*: the changes of a call that has returned `Ok`
///    survive a crash of the process and a loss of power.
/// 2. *All or nothing*: a call makes all of its changes or none. After an error
///    other than [`Failed`](crate::Error::Failed) nothing has changed.
/// 3. *Reads see every acknowledged change*: a read sees all changes that were
///    acknowledged before it began, through any handle and in any process. A
///    list and its total are of the same moment.
/// 4. *Tenants are separate*: a call that names a tenant reads and changes only
///    the records of that tenant.
/// 5. *A change is a compare-and-swap*: of concurrent changes that expect the
///    same state and leave that state, exactly one succeeds.
/// 6. *States change only as [`SandboxState::can_become`] allows*. A sandbox that
///    is being removed cannot start, and its removal cannot be undone.
/// 7. *Limits hold* under any number of concurrent additions.
/// 8. *Order is total*: a list always has the same order.
/// 9. *Text is data*: a text within bounds is read back exactly as it was
///    written, and only an equal text finds it. A text out of bounds is
///    [`Refused`](crate::Error::Refused).
/// 10. *Times are stored in microseconds*; finer parts are truncated.
///
/// Dropping a future leaves the catalog consistent: its change has happened
/// completely or not at all.
#[async_trait]
pub trait Catalog: Projects + Events + fmt::Debug + Send + Sync {
    /// Adds a tenant. `Exists` if its id or name is taken, `LimitReached` if there
    /// are [`MAX_LISTED`](crate::MAX_LISTED).
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()>;

    /// Returns all tenants, oldest first.
    async fn tenants(&self) -> Result<Vec<Tenant>>;

    /// Returns a tenant by id.
    async fn tenant(&self, id: TenantId) -> Result<Option<Tenant>>;

    /// Changes the name, the limits and the suspension of a tenant. Returns
    /// `false` if it does not exist or is being erased. `Exists` if the
    /// name is taken.
    async fn change_tenant(&self, tenant: &Tenant) -> Result<bool>;

    /// Marks a tenant as being erased and suspends it, permanently; returns the
    /// changed tenant, or `None` if there is none. Does nothing if the tenant is
    /// already being erased. From then on, adding a project, workspace or sandbox
    /// fails with `NotFound` for the owner.
    async fn begin_erasure(&self, id: TenantId, at: Timestamp) -> Result<Option<Tenant>>;

    /// Deletes all records of a tenant that is being erased; returns `false` if
    /// it does not exist. `Refused` if it is not being erased, `InUse`
    /// while it has a sandbox.
    ///
    /// Runs as many small transactions, so that other changes can happen in
    /// between. The record of the tenant stays. After a failure, another call
    /// continues.
    async fn clear_tenant(&self, id: TenantId) -> Result<bool>;

    /// Deletes a tenant that is being erased and has no other records; returns
    /// `false` if it does not exist. `Refused` if it is not being erased,
    /// `Changed` if it still has, or again has, other records.
    async fn remove_tenant(&self, id: TenantId) -> Result<bool>;

    /// Adds an agent. `Exists` if the tenant has an agent with that id or name,
    /// `NotFound` if the tenant does not exist, `LimitReached` if it has
    /// [`MAX_LISTED`](crate::MAX_LISTED) agents.
    async fn add_agent(&self, agent: &Agent) -> Result<()>;

    /// Returns all agents of a tenant, oldest first.
    async fn agents(&self, tenant: TenantId) -> Result<Vec<Agent>>;

    /// Returns an agent by id.
    async fn agent(&self, tenant: TenantId, id: &str) -> Result<Option<Agent>>;

    /// Adds a key. `Exists` if the tenant has a key with that id, or any tenant
    /// has one with that hash; `NotFound` if its tenant or agent does not exist,
    /// `LimitReached` if the tenant has [`MAX_LISTED`](crate::MAX_LISTED) keys.
    async fn add_key(&self, key: &ApiKey) -> Result<()>;

    /// Returns the key with that hash, of any tenant. Includes revoked and
    /// expired keys, so that the caller can report why a key is not valid.
    async fn key_by_hash(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>>;

    /// Returns the key with that id, including a revoked or expired one.
    async fn key(&self, tenant: TenantId, id: &str) -> Result<Option<ApiKey>>;

    /// Returns all keys of a tenant, oldest first, including revoked and expired
    /// ones.
    async fn keys(&self, tenant: TenantId) -> Result<Vec<ApiKey>>;

    /// Revokes a key. Returns `false` if it does not exist or was already
    /// revoked; then the time of the first revocation stays.
    async fn revoke_key(&self, tenant: TenantId, id: &str, at: Timestamp) -> Result<bool>;

    /// Adds a sandbox. `Exists` if its id is taken or its workspace is in another
    /// sandbox, `NotFound` if its tenant, agent or key does not exist,
    /// `LimitReached` if a limit would be exceeded.
    async fn add_sandbox(&self, sandbox: &Sandbox, limits: AddLimits) -> Result<()>;

    /// Adds up to [`MAX_BATCH`](crate::MAX_BATCH) sandboxes, all or none.
    async fn add_sandboxes(&self, sandboxes: &[Sandbox], limits: AddLimits) -> Result<()>;

    /// Returns a tenant's sandbox by id.
    async fn sandbox(&self, tenant: TenantId, id: &str) -> Result<Option<Sandbox>>;

    /// Returns a sandbox of any tenant by id: for callers that authenticate with
    /// the token of the sandbox.
    async fn sandbox_of_any_tenant(&self, id: &str) -> Result<Option<Sandbox>>;

    /// Returns the sandbox that a tenant's workspace is in, including one that is
    /// being removed.
    async fn sandbox_of_workspace(
        &self,
        tenant: TenantId,
        workspace: &str,
    ) -> Result<Option<Sandbox>>;

    /// Returns a page of sandboxes, newest first.
    async fn sandboxes(&self, query: &SandboxQuery) -> Result<Page<Sandbox>>;

    /// Returns sandboxes that have expired at `now` and are not being removed,
    /// earliest expiry first; `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn expired(&self, now: Timestamp, limit: u32) -> Result<Vec<Sandbox>>;

    /// Changes a sandbox if it is in the state that `change` expects; returns the
    /// changed sandbox. Otherwise `NotFound`, `WrongState` or `Removing`.
    async fn change_sandbox(
        &self,
        id: &str,
        change: &SandboxChange,
        now: Timestamp,
    ) -> Result<Sandbox>;

    /// Deletes a sandbox; returns `false` if there is none.
    async fn remove_sandbox(&self, id: &str, now: Timestamp) -> Result<bool>;

    /// Counts the sandboxes in each state, of one tenant or of all. Sandboxes
    /// that are being removed do not count. Every state has an entry.
    async fn count_by_state(&self, tenant: Option<TenantId>)
    -> Result<BTreeMap<SandboxState, u64>>;

    /// Adds a template, or replaces the one with that name. `LimitReached` if there
    /// are [`MAX_LISTED`](crate::MAX_LISTED) others.
    async fn put_template(&self, template: &Template) -> Result<()>;

    /// Returns a template by name.
    async fn template(&self, name: &str) -> Result<Option<Template>>;

    /// Returns all templates, by name.
    async fn templates(&self) -> Result<Vec<Template>>;

    /// Deletes a template; returns `false` if there is none.
    async fn remove_template(&self, name: &str) -> Result<bool>;

    /// Begins a request, unless it is finished or another process runs it. A
    /// request past its `keep_until` counts as unknown.
    ///
    /// If the same process has begun the request and not finished it, the request
    /// is begun again: a process tracks by itself which requests it is running.
    async fn begin(&self, request: &IdempotentRequest) -> Result<Begun>;

    /// Records the resource that a request is about to create, in place of an
    /// earlier such record. `NotFound` if this process does not run the request.
    async fn note_made(&self, run: &RequestRun, made: &str) -> Result<()>;

    /// Stores the status of the response to a request and, if given, its body.
    /// `NotFound` if this process does not run the request.
    async fn finish(&self, run: &RequestRun, status: u16, body: Option<&[u8]>) -> Result<()>;

    /// Leaves a request unfinished: the next client that sends it begins it
    /// again, with the same id and record. Does nothing if this process does not
    /// run the request.
    async fn release(&self, run: &RequestRun) -> Result<()>;

    /// Deletes a request that has changed nothing. Does nothing if this process
    /// does not run the request.
    async fn abandon(&self, run: &RequestRun) -> Result<()>;

    /// Releases the requests of all processes except those in `alive`; returns
    /// how many.
    async fn release_all_but(&self, alive: &[&str]) -> Result<u64>;

    /// Deletes the requests whose `keep_until` has passed; returns how many.
    async fn forget_idempotent(&self, now: Timestamp) -> Result<u64>;

    /// Moves the expiry of sandboxes, workspaces, open reviews and remembered
    /// requests by that many microseconds. Sets a setting in the same
    /// transaction.
    async fn move_expiry(&self, by: i64, setting: &str, value: &str) -> Result<()>;

    /// Returns a setting by name.
    async fn setting(&self, name: &str) -> Result<Option<String>>;

    /// Sets a setting.
    async fn set_setting(&self, name: &str, value: &str) -> Result<()>;

    /// Deletes a setting; returns `false` if it was not set.
    async fn remove_setting(&self, name: &str) -> Result<bool>;

    /// Checks that the catalog can be read and written now.
    async fn check(&self) -> Result<()>;
}
