//! Projects and what is theirs, on SQLite.

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_objects::SnapshotId;
use serde_json::Value;

use super::{SqliteCatalog, landing, log, projects, removal, reviews, roots, versions, workspaces};
use crate::error::Result;
use crate::projects::Projects;
use crate::query::Page;
use crate::records::{
    FileVersion, Landed, LandedStep, Landing, LogEntry, Project, ProjectChange, ProjectPolicy,
    ProjectQuery, Review, ReviewChange, ReviewQuery, Workspace, WorkspaceChange, WorkspaceQuery,
};
use crate::roots::{RootPlace, Roots};

#[async_trait]
impl Projects for SqliteCatalog {
    async fn add_project(&self, project: &Project, policy: &Value) -> Result<()> {
        projects::add(&self.database, project, policy).await
    }

    async fn project(&self, tenant: TenantId, id: &str) -> Result<Option<Project>> {
        projects::get(&self.database, tenant, id).await
    }

    async fn project_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Project>> {
        projects::by_name(&self.database, tenant, name).await
    }

    async fn projects(&self, query: &ProjectQuery) -> Result<Page<Project>> {
        projects::list(&self.database, query).await
    }

    async fn change_project(
        &self,
        tenant: TenantId,
        id: &str,
        change: &ProjectChange,
        now: Timestamp,
    ) -> Result<Project> {
        projects::change(&self.database, tenant, id, change, now).await
    }

    async fn policy(&self, tenant: TenantId, id: &str) -> Result<Option<ProjectPolicy>> {
        projects::policy(&self.database, tenant, id).await
    }

    async fn set_policy(
        &self,
        tenant: TenantId,
        id: &str,
        expected_version: u64,
        policy: &Value,
        now: Timestamp,
    ) -> Result<Project> {
        projects::set_policy(&self.database, tenant, id, expected_version, policy, now).await
    }

    async fn begin_removal(&self, tenant: TenantId, id: &str, now: Timestamp) -> Result<Project> {
        projects::begin_removal(&self.database, tenant, id, now).await
    }

    async fn remove_project(&self, id: &str) -> Result<bool> {
        removal::remove(&self.database, id).await
    }

    async fn land(&self, landing: &Landing) -> Result<Landed> {
        landing::land(&self.database, landing).await
    }

    async fn landing_by_request(&self, project: &str, request: &str) -> Result<Option<LandedStep>> {
        log::by_request(self.database.readers(), project, request).await
    }

    async fn landing(&self, project: &str, sequence: u64) -> Result<Option<LogEntry>> {
        log::get(&self.database, project, sequence).await
    }

    async fn landing_of_snapshot(
        &self,
        project: &str,
        snapshot: SnapshotId,
    ) -> Result<Option<LogEntry>> {
        log::of_snapshot(&self.database, project, snapshot).await
    }

    async fn log(&self, project: &str, before: Option<u64>, limit: u32) -> Result<Vec<LogEntry>> {
        log::page(&self.database, project, before, limit).await
    }

    async fn versions_of(
        &self,
        project: &str,
        path: &TreePath,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<FileVersion>> {
        versions::of_path(&self.database, project, path, before, limit).await
    }

    async fn last_version(&self, project: &str, path: &TreePath) -> Result<Option<FileVersion>> {
        let last = versions::of_path(&self.database, project, path, None, 1).await?;
        Ok(last.into_iter().next())
    }

    async fn versions_in(
        &self,
        project: &str,
        sequence: u64,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<FileVersion>> {
        versions::in_landing(&self.database, project, sequence, after, limit).await
    }

    async fn review(&self, tenant: TenantId, id: &str) -> Result<Option<Review>> {
        reviews::get(&self.database, tenant, id).await
    }

    async fn reviews(&self, query: &ReviewQuery) -> Result<Page<Review>> {
        reviews::list(&self.database, query).await
    }

    async fn open_reviews_of(
        &self,
        workspace: &str,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<Review>> {
        reviews::open_of(&self.database, workspace, after, limit).await
    }

    async fn expired_reviews(&self, now: Timestamp, limit: u32) -> Result<Vec<Review>> {
        reviews::expired(&self.database, now, limit).await
    }

    async fn change_review(
        &self,
        id: &str,
        change: &ReviewChange,
        now: Timestamp,
    ) -> Result<Review> {
        reviews::change(&self.database, id, change, now).await
    }

    async fn add_workspace(&self, workspace: &Workspace) -> Result<()> {
        workspaces::add(&self.database, workspace).await
    }

    async fn workspace(&self, tenant: TenantId, id: &str) -> Result<Option<Workspace>> {
        workspaces::get(&self.database, tenant, id).await
    }

    async fn workspaces(&self, query: &WorkspaceQuery) -> Result<Page<Workspace>> {
        workspaces::list(&self.database, query).await
    }

    async fn change_workspace(
        &self,
        tenant: TenantId,
        id: &str,
        change: &WorkspaceChange,
        now: Timestamp,
    ) -> Result<Workspace> {
        workspaces::change(&self.database, tenant, id, change, now).await
    }

    async fn remove_workspace(&self, tenant: TenantId, id: &str) -> Result<bool> {
        workspaces::remove(&self.database, tenant, id).await
    }

    async fn roots(
        &self,
        tenant: TenantId,
        after: Option<&RootPlace>,
        limit: u32,
    ) -> Result<Roots> {
        roots::page(&self.database, tenant, after, limit).await
    }
}
