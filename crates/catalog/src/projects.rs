//! The [`Projects`] trait: projects and their records, for the same databases as
//! [`Catalog`](crate::Catalog).

use std::collections::HashSet;

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_objects::SnapshotId;
use serde_json::Value;

use crate::error::Result;
use crate::query::Page;
use crate::records::{
    FileVersion, Landed, LandedStep, Landing, LogEntry, Project, ProjectChange, ProjectPolicy,
    ProjectQuery, Review, ReviewChange, ReviewQuery, Tag, Unkept, UnkeptQuery, Unsettled,
    Workspace, WorkspaceChange, WorkspaceQuery,
};
use crate::roots::{RootPlace, Roots};

/// Projects, their log, the history of their files, reviews, workspaces.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps these:
///
/// 11. *The log is a chain*: acknowledged landings of a project are numbered
///     from 1 without a gap, the parent of each is the snapshot of the one
///     before, and the head is the snapshot of the last.
/// 12. *Of concurrent landings that expect the same head and move it, exactly
///     one succeeds.*
/// 13. *A landing becomes visible as a whole*: head, log, versions, reviews and
///     the bases of workspaces change together.
/// 14. *A request lands once*: a step whose request was carried out before
///     changes nothing, no matter how often it is repeated.
/// 15. *A workspace has at most one open review for a path.*
/// 16. *Nothing needs a dropped version*: the head, tags, the base and the synced
///     head of workspaces, and the sides of open reviews are never dropped, and
///     no record comes to need a dropped version of its project. If a drop and a
///     change that needs the version are concurrent, only one of them succeeds.
/// 17. *The log stays*: dropping versions deletes nothing from the log or from
///     the history of paths.
///
/// Calls that name a project without its tenant are for callers that have looked
/// the project up before; for an unknown project they find nothing. Paths are
/// in the order of [`TreePath`].
#[async_trait]
pub trait Projects {
    /// Adds a project without landings. `Exists` if its id is taken or its tenant
    /// has a project with that name, `NotFound` if its tenant does not exist,
    /// `LimitReached` if the tenant may have no more.
    async fn add_project(&self, project: &Project, policy: &Value) -> Result<()>;

    /// Returns a tenant's project by id.
    async fn project(&self, tenant: TenantId, id: &str) -> Result<Option<Project>>;

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
        id: &str,
        change: &ProjectChange,
        now: Timestamp,
    ) -> Result<Project>;

    /// Returns the policy of a tenant's project.
    async fn policy(&self, tenant: TenantId, id: &str) -> Result<Option<ProjectPolicy>>;

    /// Sets the policy if its version is the expected one; returns the project
    /// with the next version. `NotFound`, `BeingRemoved`, `Changed`.
    async fn set_policy(
        &self,
        tenant: TenantId,
        id: &str,
        expected_version: u64,
        policy: &Value,
        now: Timestamp,
    ) -> Result<Project>;

    /// Marks a project as being removed: from then on nothing lands, and no
    /// workspace is added. Succeeds also if the project is already marked.
    /// `NotFound` if there is none; `InUse` if one of its workspaces is in a
    /// sandbox that is not being removed.
    async fn begin_removal(&self, tenant: TenantId, id: &str, now: Timestamp) -> Result<Project>;

    /// Deletes a project that is being removed, with its log, versions, reviews
    /// and workspaces; returns `false` if there is none. `Refused` if it is not
    /// being removed.
    ///
    /// Runs as many small transactions, so that other changes can happen in
    /// between. The project itself is deleted last, so after a failure another
    /// call continues.
    async fn remove_project(&self, id: &str) -> Result<bool>;

    /// Carries out all steps of a landing, or none.
    ///
    /// Checks in this order: `NotFound` if the tenant has no such project;
    /// `Repeated` if the request of a step was carried out before; `BeingRemoved`;
    /// `HeadMoved` if the head is not the expected one; `PolicyMoved` if the policy
    /// does not have the expected version; `Dropped` if a step would need a dropped
    /// version. Then for each step: `NotFound`, `Changed` or `Refused` if a review
    /// or the workspace is not as expected, `Dropped` if a reopened review needs a
    /// dropped version, `Exists` if the id of a new review is taken or its workspace
    /// has an open review for the path.
    async fn land(&self, landing: &Landing) -> Result<Landed>;

    /// Returns the outcome of a step by its request.
    async fn landing_by_request(&self, project: &str, request: &str) -> Result<Option<LandedStep>>;

    /// Returns an entry of the log by sequence number.
    async fn landing(&self, project: &str, sequence: u64) -> Result<Option<LogEntry>>;

    /// Returns the last entry of the log that made this snapshot the head.
    async fn landing_of_snapshot(
        &self,
        project: &str,
        snapshot: SnapshotId,
    ) -> Result<Option<LogEntry>>;

    /// Returns the log, newest first, only entries before a sequence number if
    /// one is given; `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn log(&self, project: &str, before: Option<u64>, limit: u32) -> Result<Vec<LogEntry>>;

    /// Returns the history of a path, newest first: the changes of the path
    /// itself and of directories above it that were added, deleted or replaced as
    /// a whole; only landings before a sequence number if one is given. Has one
    /// entry for each landing: the one for the longest path. `limit` is 1 to
    /// [`MAX_PAGE`](crate::MAX_PAGE).
    async fn versions_of(
        &self,
        project: &str,
        path: &TreePath,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<FileVersion>>;

    /// Returns the newest entry of [`versions_of`](Self::versions_of).
    async fn last_version(&self, project: &str, path: &TreePath) -> Result<Option<FileVersion>>;

    /// Returns the changes of a landing, by path, only those after a path if one
    /// is given; `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn versions_in(
        &self,
        project: &str,
        sequence: u64,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<FileVersion>>;

    /// Returns a tenant's review by id.
    async fn review(&self, tenant: TenantId, id: &str) -> Result<Option<Review>>;

    /// Returns a page of reviews, oldest first.
    async fn reviews(&self, query: &ReviewQuery) -> Result<Page<Review>>;

    /// Returns the open reviews of a workspace, by path, only those after a path
    /// if one is given; `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn open_reviews_of(
        &self,
        workspace: &str,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<Review>>;

    /// Returns open reviews that have expired at `now`, earliest expiry first;
    /// `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn expired_reviews(&self, now: Timestamp, limit: u32) -> Result<Vec<Review>>;

    /// Changes a review without a landing; returns the changed review.
    /// `NotFound`, `Changed` if it is not in the expected state, `Refused` if
    /// that state cannot become the new one, `Exists` if its workspace has
    /// another open review for the path, `Dropped` if it would be open and one of
    /// its sides is a dropped version.
    async fn change_review(
        &self,
        id: &str,
        change: &ReviewChange,
        now: Timestamp,
    ) -> Result<Review>;

    /// Adds a workspace. `Exists` if its id is taken, `NotFound` if its tenant,
    /// project, agent or key does not exist, `BeingRemoved` if its project is
    /// being removed, `Dropped` if its base or its synced head is a dropped
    /// version, `LimitReached` if the tenant may have no more.
    async fn add_workspace(&self, workspace: &Workspace) -> Result<()>;

    /// Returns a tenant's workspace by id.
    async fn workspace(&self, tenant: TenantId, id: &str) -> Result<Option<Workspace>>;

    /// Returns a page of workspaces, newest first.
    async fn workspaces(&self, query: &WorkspaceQuery) -> Result<Page<Workspace>>;

    /// Returns parked workspaces that have expired at `now`, earliest expiry
    /// first; `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn expired_workspaces(&self, now: Timestamp, limit: u32) -> Result<Vec<Workspace>>;

    /// Changes a workspace if it is as `change` expects; returns the changed
    /// workspace. `NotFound`, `Changed`, `BeingRemoved` if the workspace is being
    /// removed and the change sets another state or its project is being removed
    /// and the change sets it live, or `Dropped` if its base or synced head is a
    /// dropped version.
    async fn change_workspace(
        &self,
        tenant: TenantId,
        id: &str,
        change: &WorkspaceChange,
        now: Timestamp,
    ) -> Result<Workspace>;

    /// Returns the unsettled conflicts of a workspace, by path.
    async fn unsettled(&self, tenant: TenantId, workspace: &str) -> Result<Vec<Unsettled>>;

    /// Deletes a workspace; returns `false` if there is none. Its reviews stay.
    async fn remove_workspace(&self, tenant: TenantId, id: &str) -> Result<bool>;

    /// Sets a tag. `Exists` if the project has a tag with that name and
    /// `may_move` is false; `NotFound` if the tenant has no such project,
    /// `BeingRemoved`, `Dropped`, `LimitReached` if the project has
    /// [`MAX_LISTED`](crate::MAX_LISTED) tags.
    async fn set_tag(&self, tenant: TenantId, tag: &Tag, may_move: bool) -> Result<()>;

    /// Returns a tag of a project by name.
    async fn tag(&self, project: &str, name: &str) -> Result<Option<Tag>>;

    /// Returns the tags of a project, by name, only those after a name if one is
    /// given; `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn tags(&self, project: &str, after: Option<&str>, limit: u32) -> Result<Vec<Tag>>;

    /// Deletes a tag; returns `false` if there is none.
    async fn remove_tag(&self, project: &str, name: &str) -> Result<bool>;

    /// Returns versions of a project, oldest first, that its retention does not
    /// keep and that were not dropped. Does not check whether a record needs
    /// them; [`drop_versions`](Self::drop_versions) does. A version that was the
    /// head several times counts as the last of them.
    async fn unkept_versions(&self, project: &Project, query: &UnkeptQuery) -> Result<Unkept>;

    /// Returns the versions that records of a project need, regardless of its
    /// retention.
    async fn needed_versions(&self, project: &Project) -> Result<HashSet<SnapshotId>>;

    /// Drops up to [`MAX_PAGE`](crate::MAX_PAGE) versions, except those that a
    /// record needs or that were dropped before; returns the dropped ones.
    /// `NotFound`, `BeingRemoved`, or `Changed` if the retention differs from
    /// that of `project`.
    async fn drop_versions(
        &self,
        project: &Project,
        snapshots: &[SnapshotId],
        now: Timestamp,
    ) -> Result<Vec<SnapshotId>>;

    /// Returns the ids of a tenant's projects that have dropped a snapshot.
    async fn dropped_from(&self, tenant: TenantId, snapshot: SnapshotId) -> Result<Vec<String>>;

    /// Returns snapshots of a tenant that must be kept: present and earlier heads
    /// that were not dropped, tags, the base and the synced head of workspaces,
    /// the three sides of open reviews. Starts after a place, or at the
    /// beginning. `limit`, 1 to [`MAX_PAGE`](crate::MAX_PAGE), is the number of
    /// records to read. A snapshot may be returned more than once.
    ///
    /// A walk over all pages returns every snapshot that the same record needs
    /// during the whole walk.
    async fn roots(&self, tenant: TenantId, after: Option<&RootPlace>, limit: u32)
    -> Result<Roots>;
}
