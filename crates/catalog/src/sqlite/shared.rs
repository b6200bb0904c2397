//! [`Projects`] and [`Events`] on SQLite.

use std::collections::HashSet;

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_objects::SnapshotId;
use serde_json::Value;

use super::{
    SqliteCatalog, events, landing, log, projects, removal, retention, reviews, roots, tags,
    unsettled, versions, webhooks, workspaces,
};
use crate::error::Result;
use crate::events::Events;
use crate::projects::Projects;
use crate::query::Page;
use crate::records::{
    Attempt, Delivery, DeliveryState, Event, EventQuery, FileVersion, Landed, LandedStep, Landing,
    LogEntry, NewEvent, Project, ProjectChange, ProjectPolicy, ProjectQuery, Review, ReviewChange,
    ReviewQuery, Tag, Unkept, UnkeptQuery, Unsettled, Webhook, Workspace, WorkspaceChange,
    WorkspaceQuery,
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

    async fn expired_workspaces(&self, now: Timestamp, limit: u32) -> Result<Vec<Workspace>> {
        workspaces::expired(&self.database, now, limit).await
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

    async fn unsettled(&self, tenant: TenantId, workspace: &str) -> Result<Vec<Unsettled>> {
        unsettled::list(&self.database, tenant, workspace).await
    }

    async fn remove_workspace(&self, tenant: TenantId, id: &str) -> Result<bool> {
        workspaces::remove(&self.database, tenant, id).await
    }

    async fn set_tag(&self, tenant: TenantId, tag: &Tag, may_move: bool) -> Result<()> {
        tags::set(&self.database, tenant, tag, may_move).await
    }

    async fn tag(&self, project: &str, name: &str) -> Result<Option<Tag>> {
        tags::get(&self.database, project, name).await
    }

    async fn tags(&self, project: &str, after: Option<&str>, limit: u32) -> Result<Vec<Tag>> {
        tags::list(&self.database, project, after, limit).await
    }

    async fn remove_tag(&self, project: &str, name: &str) -> Result<bool> {
        tags::remove(&self.database, project, name).await
    }

    async fn unkept_versions(&self, project: &Project, query: &UnkeptQuery) -> Result<Unkept> {
        retention::unkept(&self.database, project, query).await
    }

    async fn needed_versions(&self, project: &Project) -> Result<HashSet<SnapshotId>> {
        retention::needed(self.database.readers(), project).await
    }

    async fn drop_versions(
        &self,
        project: &Project,
        snapshots: &[SnapshotId],
        now: Timestamp,
    ) -> Result<Vec<SnapshotId>> {
        retention::drop_versions(&self.database, project, snapshots, now).await
    }

    async fn dropped_from(&self, tenant: TenantId, snapshot: SnapshotId) -> Result<Vec<String>> {
        retention::dropped_from(&self.database, tenant, snapshot).await
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

#[async_trait]
impl Events for SqliteCatalog {
    async fn add_event(&self, event: &NewEvent) -> Result<u64> {
        events::add(&self.database, event).await
    }

    async fn events(&self, query: &EventQuery) -> Result<Vec<Event>> {
        events::list(&self.database, query).await
    }

    async fn last_event(&self) -> Result<u64> {
        events::last(&self.database).await
    }

    async fn forget_events(&self, before: Timestamp) -> Result<u64> {
        events::forget(&self.database, before).await
    }

    async fn add_webhook(&self, webhook: &Webhook) -> Result<()> {
        webhooks::add(&self.database, webhook).await
    }

    async fn webhook(&self, id: &str) -> Result<Option<Webhook>> {
        webhooks::get(&self.database, id).await
    }

    async fn webhooks(&self, tenant: Option<TenantId>) -> Result<Vec<Webhook>> {
        webhooks::list(&self.database, tenant).await
    }

    async fn set_webhook_secret(&self, id: &str, secret: &str) -> Result<bool> {
        webhooks::set_secret(&self.database, id, secret).await
    }

    async fn remove_webhook(&self, id: &str) -> Result<bool> {
        webhooks::remove(&self.database, id).await
    }

    async fn queue_deliveries(&self, webhook: &str, limit: u32, now: Timestamp) -> Result<u64> {
        webhooks::queue(&self.database, webhook, limit, now).await
    }

    async fn pending_deliveries(&self, webhook: &str, limit: u32) -> Result<Vec<Delivery>> {
        webhooks::pending(&self.database, webhook, limit).await
    }

    async fn note_attempts(
        &self,
        webhook: &str,
        attempts: &[Attempt],
        now: Timestamp,
    ) -> Result<()> {
        webhooks::note(&self.database, webhook, attempts, now).await
    }

    async fn deliveries(
        &self,
        webhook: &str,
        state: Option<DeliveryState>,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<Delivery>> {
        webhooks::list_deliveries(&self.database, webhook, state, before, limit).await
    }

    async fn replay(&self, webhook: &str, event: u64, now: Timestamp) -> Result<bool> {
        webhooks::replay(&self.database, webhook, event, now).await
    }
}
