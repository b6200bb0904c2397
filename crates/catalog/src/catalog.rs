//! What the service knows, behind one trait. Several databases can keep it;
//! `conformance` holds every one of them to the promises written here.

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

/// Tenants, agents, keys, sandboxes, templates, answered requests, settings;
/// [`Projects`] and [`Events`].
///
/// Promises, kept by every implementation:
///
/// 1. *Acknowledged means durable*: what a call has changed when it returns
///    `Ok` survives the end of the process and a loss of power.
/// 2. *All or nothing*: a call changes all it says or nothing; after an error
///    other than [`Failed`](crate::Error::Failed) it changed nothing.
/// 3. *Reads see what was acknowledged* before they began, by whichever handle
///    or process; a list and its total are of one moment.
/// 4. *Tenants are separate*: a call that names a tenant sees and changes only
///    what is that tenant's.
/// 5. *A change is a compare-and-swap*: of several at once that expect the same
///    state, and leave it, one succeeds.
/// 6. *States change only as [`SandboxState::can_become`] says*, and a sandbox
///    that is being removed neither starts nor stops being removed.
/// 7. *Limits hold*, however many add at once.
/// 8. *Order is total*: lists come in the same order each time.
/// 9. *Text is data*: whatever is within bounds comes back as it was given,
///    and is found by no other; what is not is
///    [`Refused`](crate::Error::Refused).
/// 10. *Times are kept to the microsecond*; what is finer is cut.
///
/// A future that is dropped leaves the catalog whole: its change happened or
/// did not.
#[async_trait]
pub trait Catalog: Projects + Events + fmt::Debug + Send + Sync {
    /// Adds a tenant. `Exists` if its id or name is taken.
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()>;

    /// All tenants, oldest first.
    async fn tenants(&self) -> Result<Vec<Tenant>>;

    /// A tenant by its id.
    async fn tenant(&self, id: TenantId) -> Result<Option<Tenant>>;

    /// Gives a tenant another name, other limits and another suspension. Returns
    /// `false` if there is none, or it is being erased. `Exists` if its name is
    /// taken.
    async fn change_tenant(&self, tenant: &Tenant) -> Result<bool>;

    /// Marks a tenant as being erased and suspends it, which nothing takes back;
    /// returns the tenant as it is then. One that is being erased stays as it is.
    /// From then on no project, workspace or sandbox of it is added: their owner
    /// is `NotFound`.
    async fn begin_erasure(&self, id: TenantId, at: Timestamp) -> Result<Option<Tenant>>;

    /// Forgets everything of a tenant that is being erased; `false` if there is no
    /// such tenant. `Refused` if it is not being erased, `InUse` while it has a
    /// sandbox.
    ///
    /// Not one change but many small ones, so that others can work in between.
    /// The tenant itself stays, and a second call goes on.
    async fn clear_tenant(&self, id: TenantId) -> Result<bool>;

    /// Forgets a tenant that is being erased and has nothing any more; `false` if
    /// there is none. `Refused` if it is not being erased, `Changed` if it has
    /// something again.
    async fn remove_tenant(&self, id: TenantId) -> Result<bool>;

    /// Adds an agent. `Exists` if its tenant has one of that id or name.
    async fn add_agent(&self, agent: &Agent) -> Result<()>;

    /// All agents of a tenant, oldest first.
    async fn agents(&self, tenant: TenantId) -> Result<Vec<Agent>>;

    /// An agent by its id.
    async fn agent(&self, tenant: TenantId, id: &str) -> Result<Option<Agent>>;

    /// Adds a key. `Exists` if its tenant has one of that id, or any one of
    /// that hash.
    async fn add_key(&self, key: &ApiKey) -> Result<()>;

    /// The key of that hash, whoever's it is; a revoked or expired one too, so
    /// that the caller can say why it is not valid.
    async fn key_by_hash(&self, hash: &[u8; 32]) -> Result<Option<ApiKey>>;

    /// The key of that id; a revoked or expired one too.
    async fn key(&self, tenant: TenantId, id: &str) -> Result<Option<ApiKey>>;

    /// All keys of a tenant, oldest first; revoked and expired ones too.
    async fn keys(&self, tenant: TenantId) -> Result<Vec<ApiKey>>;

    /// Takes a key back. False if there is none of that id, or it was revoked
    /// before; then the time of that stays.
    async fn revoke_key(&self, tenant: TenantId, id: &str, at: Timestamp) -> Result<bool>;

    /// Adds a sandbox. `Exists` if its id is taken or its workspace is in another
    /// sandbox, `NotFound` if its tenant,
    /// agent or key is not there, `LimitReached` if there would be too many.
    async fn add_sandbox(&self, sandbox: &Sandbox, limits: AddLimits) -> Result<()>;

    /// Adds up to [`MAX_BATCH`](crate::MAX_BATCH) sandboxes, all or none.
    async fn add_sandboxes(&self, sandboxes: &[Sandbox], limits: AddLimits) -> Result<()>;

    /// A tenant's sandbox by its id.
    async fn sandbox(&self, tenant: TenantId, id: &str) -> Result<Option<Sandbox>>;

    /// A sandbox by its id, whoever's it is: for those who prove themselves
    /// with its token.
    async fn sandbox_of_any_tenant(&self, id: &str) -> Result<Option<Sandbox>>;

    /// The sandbox that a tenant's workspace is in, also one that is being
    /// removed.
    async fn sandbox_of_workspace(
        &self,
        tenant: TenantId,
        workspace: &str,
    ) -> Result<Option<Sandbox>>;

    /// A page of sandboxes, newest first.
    async fn sandboxes(&self, query: &SandboxQuery) -> Result<Page<Sandbox>>;

    /// Sandboxes that have expired at `now` and are not being removed, the
    /// longest expired first; `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn expired(&self, now: Timestamp, limit: u32) -> Result<Vec<Sandbox>>;

    /// Changes a sandbox if it is as `change` expects; returns what it is then.
    /// `NotFound`, `WrongState`, or `Removing` if not.
    async fn change_sandbox(
        &self,
        id: &str,
        change: &SandboxChange,
        now: Timestamp,
    ) -> Result<Sandbox>;

    /// Forgets a sandbox; false if there is none.
    async fn remove_sandbox(&self, id: &str, now: Timestamp) -> Result<bool>;

    /// How many sandboxes, of one tenant or of all, are in each state. Those
    /// being removed do not count; every state has a number.
    async fn count_by_state(&self, tenant: Option<TenantId>)
    -> Result<BTreeMap<SandboxState, u64>>;

    /// Adds a template, or replaces the one of that name.
    async fn put_template(&self, template: &Template) -> Result<()>;

    /// A template by its name.
    async fn template(&self, name: &str) -> Result<Option<Template>>;

    /// All templates, by name.
    async fn templates(&self) -> Result<Vec<Template>>;

    /// Forgets a template; false if there is none.
    async fn remove_template(&self, name: &str) -> Result<bool>;

    /// Begins a request, unless it is answered or at work. One that should no
    /// longer be remembered is as good as unknown.
    ///
    /// A request that the same process has begun and not finished is begun
    /// again: a process knows by itself which requests it is at work on.
    async fn begin(&self, request: &IdempotentRequest) -> Result<Begun>;

    /// Notes what a request is about to make, in place of an earlier note.
    /// `NotFound` if this process is not at work on it.
    async fn note_made(&self, run: &RequestRun, made: &str) -> Result<()>;

    /// Keeps the status of the answer to a request and, if it is given, the
    /// answer's body. `NotFound` if this process is not at work on it.
    async fn finish(&self, run: &RequestRun, status: u16, body: Option<&[u8]>) -> Result<()>;

    /// Leaves a request unfinished: the next to send it begins it again, with
    /// the same id and note. Does nothing if this process is not at work on it.
    async fn release(&self, run: &RequestRun) -> Result<()>;

    /// Forgets a request that has changed nothing. Does nothing if this process
    /// is not at work on it.
    async fn abandon(&self, run: &RequestRun) -> Result<()>;

    /// Releases the requests of all processes but those that are alive; returns
    /// how many.
    async fn release_all_but(&self, alive: &[&str]) -> Result<u64>;

    /// Forgets requests that should no longer be kept; returns how many.
    async fn forget_idempotent(&self, now: Timestamp) -> Result<u64>;

    /// Moves every end that the clock decides by so many microseconds: of
    /// sandboxes, parked workspaces, open reviews and remembered requests. Sets
    /// a setting in the same transaction.
    async fn move_expiry(&self, by: i64, setting: &str, value: &str) -> Result<()>;

    /// A setting by its name.
    async fn setting(&self, name: &str) -> Result<Option<String>>;

    /// Sets a setting.
    async fn set_setting(&self, name: &str, value: &str) -> Result<()>;

    /// Forgets a setting; false if it was not set.
    async fn remove_setting(&self, name: &str) -> Result<bool>;

    /// Whether reading and writing work now.
    async fn check(&self) -> Result<()>;
}
