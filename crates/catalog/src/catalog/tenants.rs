use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp};

use crate::error::Result;
use crate::records::Tenant;

/// Tenants, and their erasure.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps this one:
///
/// 21. *An erasure only goes forward*: a tenant that is being erased stays
///     suspended, does not change, and gets no new project, workspace or sandbox:
///     adding one fails with `NotFound` for the owner.
#[async_trait]
pub trait Tenants {
    /// Adds a tenant that is not being erased; the field `erasing` is ignored.
    /// `Exists` if its id or name is taken, `LimitReached` if there are
    /// [`MAX_LISTED`](crate::MAX_LISTED) tenants.
    async fn add_tenant(&self, tenant: &Tenant) -> Result<()>;

    /// Returns all tenants, oldest first: by time of creation, then by id.
    async fn tenants(&self) -> Result<Vec<Tenant>>;

    /// Returns a tenant by id.
    async fn tenant(&self, id: TenantId) -> Result<Option<Tenant>>;

    /// Changes the name, the limits and the suspension of a tenant. Returns
    /// `false` if it does not exist or is being erased. `Exists` if another
    /// tenant has the name.
    async fn change_tenant(&self, tenant: &Tenant) -> Result<bool>;

    /// Marks a tenant as being erased and suspends it, permanently; returns the
    /// changed tenant, or `None` if there is none. A tenant that is already
    /// suspended or being erased keeps the time at which that began.
    async fn begin_erasure(&self, id: TenantId, at: Timestamp) -> Result<Option<Tenant>>;

    /// Deletes all records of a tenant that is being erased, except the record of
    /// the tenant itself; returns `false` if there is none. `Refused` if it is
    /// not being erased, `InUse` while it has a sandbox.
    ///
    /// Deletes in small changes, so that other changes can happen in between;
    /// readers can see a tenant whose records are partly deleted. After a
    /// failure, another call continues.
    async fn clear_tenant(&self, id: TenantId) -> Result<bool>;

    /// Deletes a tenant that is being erased and has no other records; returns
    /// `false` if there is none. `Refused` if it is not being erased, `Changed`
    /// if it still has, or again has, other records. Events do not count: an
    /// event can be recorded for a tenant that does not exist.
    async fn remove_tenant(&self, id: TenantId) -> Result<bool>;
}
