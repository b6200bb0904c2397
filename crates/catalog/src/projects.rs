//! Projects and what is theirs, behind one trait, for the same databases as
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
/// Besides what every [`Catalog`](crate::Catalog) promises:
///
/// 11. *The log is a chain*: acknowledged landings of a project are numbered
///     from 1 without a gap, the parent of each is the snapshot of the one
///     before, and the head is the snapshot of the last.
/// 12. *Of landings at once that expect the same head, and move it, one
///     succeeds.*
/// 13. *Nothing of a landing is seen before all of it is*: head, log, versions,
///     reviews and the bases of workspaces change together.
/// 14. *A request lands once*: a step whose request was carried out before does
///     nothing, however often it comes.
/// 15. *A workspace has at most one open review for a path.*
/// 16. *Nothing needs what was dropped*: the head, tags, bases of workspaces and
///     what they have seen, and the sides of open reviews are not dropped, and
///     nothing comes to need a version of its project that was. Of a drop and
///     something that would need the version, at once, one succeeds.
/// 17. *The log stays*: dropping takes nothing from it, nor from the history of
///     paths.
///
/// Calls that name a project without its tenant are for those who have looked
/// it up before; of one that is not there they find nothing. Paths come in the order of [`TreePath`].
#[async_trait]
pub trait Projects {
    /// Adds a project, with no landings yet. `Exists` if its id is taken or its
    /// tenant has one of that name, `NotFound` if its tenant is not there.
    async fn add_project(&self, project: &Project, policy: &Value) -> Result<()>;

    /// A tenant's project by its id.
    async fn project(&self, tenant: TenantId, id: &str) -> Result<Option<Project>>;

    /// A tenant's project by its name.
    async fn project_by_name(&self, tenant: TenantId, name: &str) -> Result<Option<Project>>;

    /// A page of projects, newest first.
    async fn projects(&self, query: &ProjectQuery) -> Result<Page<Project>>;

    /// Changes name, description or retention; returns what it is then. `NotFound`,
    /// `BeingRemoved`, or `Exists` if the tenant has another of that name.
    async fn change_project(
        &self,
        tenant: TenantId,
        id: &str,
        change: &ProjectChange,
        now: Timestamp,
    ) -> Result<Project>;

    /// The policy of a tenant's project.
    async fn policy(&self, tenant: TenantId, id: &str) -> Result<Option<ProjectPolicy>>;

    /// Sets the policy, if its version is the expected one; returns the project
    /// with the next version. `NotFound`, `BeingRemoved`, `Changed`.
    async fn set_policy(
        &self,
        tenant: TenantId,
        id: &str,
        expected_version: u64,
        policy: &Value,
        now: Timestamp,
    ) -> Result<Project>;

    /// Marks a project as being removed, also one that is: from now on nothing
    /// lands, and no workspace is added. `NotFound` if there is none; `InUse`
    /// if a sandbox that is not being removed has one of its workspaces.
    async fn begin_removal(&self, tenant: TenantId, id: &str, now: Timestamp) -> Result<Project>;

    /// Forgets a project that is being removed, with its log, versions, reviews
    /// and workspaces; false if there is none. `Refused` if it is not being
    /// removed.
    ///
    /// Not one change but many small ones, so that others can work in between.
    /// Until the last the project is there, and whoever calls again goes on.
    async fn remove_project(&self, id: &str) -> Result<bool>;

    /// Carries out all steps of a landing, or none.
    ///
    /// In this order: `NotFound` if the tenant has no such project; `Repeated`
    /// if a step's request is known; `BeingRemoved`; `HeadMoved` if the head is
    /// not the expected one; `PolicyMoved` if the policy is not of the expected
    /// version; then for each step `NotFound`, `Changed` or
    /// `Refused` if a review or the workspace is not as expected, `Exists` if
    /// a review of that id or place is there. `Dropped` if a step would need a
    /// version that was, before any of these.
    async fn land(&self, landing: &Landing) -> Result<Landed>;

    /// What became of a step, by what it was called.
    async fn landing_by_request(&self, project: &str, request: &str) -> Result<Option<LandedStep>>;

    /// An entry of the log by its number.
    async fn landing(&self, project: &str, sequence: u64) -> Result<Option<LogEntry>>;

    /// The last entry of the log that made this snapshot the head.
    async fn landing_of_snapshot(
        &self,
        project: &str,
        snapshot: SnapshotId,
    ) -> Result<Option<LogEntry>>;

    /// The log, newest first: what came before a number, or all; `limit` is 1
    /// to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn log(&self, project: &str, before: Option<u64>, limit: u32) -> Result<Vec<LogEntry>>;

    /// The history of a path, newest first: what changed it, or a directory
    /// above it as a whole, before a number, or ever. One for each landing: of
    /// several, the one nearest to the path. `limit` is 1 to
    /// [`MAX_PAGE`](crate::MAX_PAGE).
    async fn versions_of(
        &self,
        project: &str,
        path: &TreePath,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<FileVersion>>;

    /// The newest of [`versions_of`](Self::versions_of).
    async fn last_version(&self, project: &str, path: &TreePath) -> Result<Option<FileVersion>>;

    /// What a landing changed, by path: what comes after a path, or all;
    /// `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn versions_in(
        &self,
        project: &str,
        sequence: u64,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<FileVersion>>;

    /// A tenant's review by its id.
    async fn review(&self, tenant: TenantId, id: &str) -> Result<Option<Review>>;

    /// A page of reviews, oldest first.
    async fn reviews(&self, query: &ReviewQuery) -> Result<Page<Review>>;

    /// The open reviews of a workspace, by path: those after a path, or all;
    /// `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn open_reviews_of(
        &self,
        workspace: &str,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<Review>>;

    /// Reviews that are open and have expired at `now`, the longest expired
    /// first; `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn expired_reviews(&self, now: Timestamp, limit: u32) -> Result<Vec<Review>>;

    /// Changes a review without a landing; returns what it is then. `NotFound`,
    /// `Changed` if it is not in the expected state, `Refused` if it cannot go
    /// to the new one, `Exists` if it would be the second that is open, `Dropped`
    /// if a side of it is and it would be open.
    async fn change_review(
        &self,
        id: &str,
        change: &ReviewChange,
        now: Timestamp,
    ) -> Result<Review>;

    /// Adds a workspace. `Exists` if its id is taken, `NotFound` if its tenant,
    /// project, agent or key is not there, `BeingRemoved` if its project is,
    /// `Dropped` if its base is, or what it has seen.
    async fn add_workspace(&self, workspace: &Workspace) -> Result<()>;

    /// A tenant's workspace by its id.
    async fn workspace(&self, tenant: TenantId, id: &str) -> Result<Option<Workspace>>;

    /// A page of workspaces, newest first.
    async fn workspaces(&self, query: &WorkspaceQuery) -> Result<Page<Workspace>>;

    /// Parked workspaces that have expired at `now`, the longest expired first;
    /// `limit` is 1 to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn expired_workspaces(&self, now: Timestamp, limit: u32) -> Result<Vec<Workspace>>;

    /// Changes a workspace if it is as `change` expects; returns what it is
    /// then. `NotFound`, `Changed`, `BeingRemoved` if it should come back and it
    /// or its project is, or `Dropped`.
    async fn change_workspace(
        &self,
        tenant: TenantId,
        id: &str,
        change: &WorkspaceChange,
        now: Timestamp,
    ) -> Result<Workspace>;

    /// Returns the conflicts that a workspace has not settled, by path.
    async fn unsettled(&self, tenant: TenantId, workspace: &str) -> Result<Vec<Unsettled>>;

    /// Forgets a workspace; false if there is none. Its reviews stay.
    async fn remove_workspace(&self, tenant: TenantId, id: &str) -> Result<bool>;

    /// Sets a tag. `Exists` if there is one of that name, unless it may move;
    /// `NotFound` if the tenant has no such project, `BeingRemoved`, `Dropped`,
    /// `LimitReached` if there are [`MAX_LISTED`](crate::MAX_LISTED).
    async fn set_tag(&self, tenant: TenantId, tag: &Tag, may_move: bool) -> Result<()>;

    /// A tag of a project by its name.
    async fn tag(&self, project: &str, name: &str) -> Result<Option<Tag>>;

    /// The tags of a project by name: those after a name, or all; `limit` is 1
    /// to [`MAX_PAGE`](crate::MAX_PAGE).
    async fn tags(&self, project: &str, after: Option<&str>, limit: u32) -> Result<Vec<Tag>>;

    /// Forgets a tag; false if there is none.
    async fn remove_tag(&self, project: &str, name: &str) -> Result<bool>;

    /// Versions of a project, oldest first, that its retention does not keep and
    /// that were not dropped; what needs them is looked at when they are. One
    /// that was the head several times counts as the last of them.
    async fn unkept_versions(&self, project: &Project, query: &UnkeptQuery) -> Result<Unkept>;

    /// What a project needs, whatever its retention says.
    async fn needed_versions(&self, project: &Project) -> Result<HashSet<SnapshotId>>;

    /// Drops versions, up to [`MAX_PAGE`](crate::MAX_PAGE), but for those that
    /// something needs or that were dropped before; returns which. `NotFound`,
    /// `BeingRemoved`, or `Changed` if the retention is no longer the given
    /// project's.
    async fn drop_versions(
        &self,
        project: &Project,
        snapshots: &[SnapshotId],
        now: Timestamp,
    ) -> Result<Vec<SnapshotId>>;

    /// The projects of a tenant, by id, that have dropped a snapshot.
    async fn dropped_from(&self, tenant: TenantId, snapshot: SnapshotId) -> Result<Vec<String>>;

    /// Snapshots of a tenant that must stay: heads and all that were and are not
    /// dropped, tags, bases of workspaces and what they have seen, the three sides of open reviews.
    /// From a place on, or from the beginning; `limit`, 1 to
    /// [`MAX_PAGE`](crate::MAX_PAGE), is how many records are read. Some
    /// snapshots come more than once.
    ///
    /// A walk over all pages meets every snapshot that one and the same record
    /// needs for as long as the walk takes.
    async fn roots(&self, tenant: TenantId, after: Option<&RootPlace>, limit: u32)
    -> Result<Roots>;
}
