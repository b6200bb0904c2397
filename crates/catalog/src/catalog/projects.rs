use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, Timestamp};
use serde_json::Value;

use crate::error::Result;
use crate::query::Page;
use crate::records::{Project, ProjectChange, ProjectQuery};

/// Projects.
#[async_trait]
pub trait Projects {
    /// Adds a project without landings, with its policy. `Exists` if any tenant
    /// has a project with that id, or the tenant has one with that name;
    /// `NotFound` for the owner if its tenant does not exist or is being erased;
    /// `LimitReached` if the tenant may have no more.
    async fn add_project(&self, project: &Project, policy: &Value) -> Result<()>;

    /// Returns a tenant's project by id.
    async fn project(&self, tenant: TenantId, id: &ProjectId) -> Result<Option<Project>>;

    /// Returns a tenant's project by name.
    async fn project_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Project>>;

    /// Returns a page of projects, newest first.
    async fn projects(&self, query: &ProjectQuery) -> Result<Page<Project>>;

    /// Changes the name, description or retention; returns the changed project.
    /// `NotFound`, `BeingRemoved`, or `Exists` if the tenant has another project
    /// with that name.
    async fn change_project(
        &self,
        tenant: TenantId,
        id: &ProjectId,
        change: &ProjectChange,
        now: Timestamp,
    ) -> Result<Project>;

    /// Marks a project as being removed: from then on nothing lands, and no
    /// workspace is added. Succeeds also if the project is already marked.
    /// `NotFound` if there is none; `InUse` if one of its workspaces is in a
    /// sandbox that is not being removed.
    async fn begin_removal(
        &self,
        tenant: TenantId,
        id: &ProjectId,
        now: Timestamp,
    ) -> Result<Project>;

    /// Deletes a project that is being removed, with its policy, log, versions,
    /// tags, reviews and workspaces; returns `false` if there is none. `Refused`
    /// if it is not being removed.
    ///
    /// Deletes in small changes, so that other changes can happen in between;
    /// readers can see a project whose records are partly deleted. The project
    /// itself is deleted last, so after a failure another call continues.
    async fn remove_project(&self, tenant: TenantId, id: &ProjectId) -> Result<bool>;
}
