use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp, WorkspaceId};

use crate::error::Result;
use crate::nodes::NodeId;
use crate::query::Page;
use crate::records::{Unsettled, Workspace, WorkspaceChange, WorkspaceQuery};

/// Workspaces, and their conflicts that are not settled yet.
#[async_trait]
pub trait Workspaces {
    /// Adds a workspace. `Exists` if any tenant has a workspace with that id;
    /// `NotFound` for the owner if its tenant, project, agent or key does not
    /// exist or its tenant is being erased; `BeingRemoved` if its project is being
    /// removed; `Dropped` if its base or its synced head is a dropped version of
    /// the project; `LimitReached` if the tenant may have no more.
    async fn add_workspace(&self, workspace: &Workspace) -> Result<()>;

    /// Returns a tenant's workspace by id.
    async fn workspace(&self, tenant: TenantId, id: &WorkspaceId) -> Result<Option<Workspace>>;

    /// Returns a tenant's workspaces with a name, oldest first: at most one of
    /// each project, and one without a project. A workspace that is being removed
    /// has no name.
    async fn workspaces_by_name(&self, tenant: TenantId, name: &str) -> Result<Vec<Workspace>>;

    /// Returns a page of workspaces, newest first.
    async fn workspaces(&self, query: &WorkspaceQuery) -> Result<Page<Workspace>>;

    /// Returns at most `limit` parked workspaces of a node, of all tenants, that
    /// have expired at `now`, earliest expiry first.
    async fn expired_workspaces_of_all_tenants(
        &self,
        node: NodeId,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Workspace>>;

    /// Changes a workspace if it is as `change` expects, and records the events of
    /// `change`; returns the changed workspace. `NotFound`; `Changed` if it is not
    /// as expected; `BeingRemoved` if the workspace is being removed and the
    /// change sets another state, or if its project is being removed and the
    /// change sets it live; `Dropped` if its base or synced head is a dropped
    /// version of its project.
    async fn change_workspace(
        &self,
        tenant: TenantId,
        id: &WorkspaceId,
        change: &WorkspaceChange,
        now: Timestamp,
    ) -> Result<Workspace>;

    /// Returns the unsettled conflicts of a workspace, in the order of
    /// [`TreePath`](elevo_core::TreePath).
    async fn unsettled(&self, tenant: TenantId, workspace: &WorkspaceId) -> Result<Vec<Unsettled>>;

    /// Deletes a workspace with its unsettled conflicts; returns `false` if there
    /// is none. Its reviews stay.
    async fn remove_workspace(&self, tenant: TenantId, id: &WorkspaceId) -> Result<bool>;
}
