//! Merges workspaces into their projects, and completes them: a last merge, and
//! the deletion of the workspace.

mod batch;
mod retries;

use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::{LandingKind, Workspace};
use elevo_core::{ErrorCode, WorkspaceId};

use crate::app::access::names::Names;
use crate::app::access::principal::Principal;
use crate::app::projects::landing::Landings;
use crate::app::projects::landing::job::Job;
use crate::app::projects::merges::retries::Completing;
use crate::app::projects::{Projects, out};
use crate::app::requests::once::Once;
use crate::app::resources::Resources;
use crate::app::workspaces::Workspaces;
use crate::failure::{Failure, Result};

/// Maximum attempts of a merge while other requests move the base of the
/// workspace.
const ATTEMPTS: usize = 5;

/// Merges workspaces into their projects.
pub(crate) struct Merges {
    catalog: Arc<dyn Catalog>,
    names: Arc<Names>,
    landings: Arc<Landings>,
    projects: Arc<Projects>,
    workspaces: Arc<Workspaces>,
}

impl Merges {
    pub(crate) fn new(
        resources: &Resources,
        landings: &Arc<Landings>,
        projects: &Arc<Projects>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            names: resources.names.clone(),
            landings: landings.clone(),
            projects: projects.clone(),
            workspaces: workspaces.clone(),
        }
    }

    /// Lands the changes of a workspace in its project.
    pub(crate) async fn merge(
        self: &Arc<Self>,
        who: &Principal,
        id: &WorkspaceId,
        wish: api::Merge,
        once: Once,
    ) -> Result<api::MergeResult> {
        who.needs(Scope::ProjectsWrite)?;
        let row = self.workspaces.visible(who, id).await?;
        if wish.dry_run {
            once.rehearsed();
        } else if once.is_again() {
            let project = self.projects.of_workspace(&row).await?;
            // The server may have stopped after the landing of an earlier
            // attempt, before it stored the response.
            if let Some(done) = self.landings.landed_before(&project, &once).await? {
                return Ok(done);
            }
        }
        self.merge_row(who, &row, &wish, once.landing(), false)
            .await
    }

    /// Lands the changes of a workspace, and retries while other requests merge
    /// or refresh it. `last` is true for a workspace that is deleted afterwards.
    pub(crate) async fn merge_row(
        self: &Arc<Self>,
        who: &Principal,
        row: &Workspace,
        wish: &api::Merge,
        request: Option<String>,
        last: bool,
    ) -> Result<api::MergeResult> {
        let project = self.projects.of_workspace(row).await?;
        self.landings
            .check_override(&project, wish.strategy)
            .await?;
        let may_decide = who.may_decide(row.agent.as_ref());
        let mut attempts = 1..ATTEMPTS;
        loop {
            let job = self.job_of(who, row, wish, request.clone()).await?;
            let job = Job { last, ..job };
            match self.landings.settle(&project, job, wish.dry_run).await {
                // The base of the workspace has moved since its files were read,
                // so the next attempt reads them again.
                Err(failure) if failure.code == ErrorCode::WorkspaceBusy => {
                    attempts.next().ok_or(failure)?;
                }
                done => {
                    let merged = done?;
                    return Ok(api::MergeResult {
                        may_decide,
                        ..merged
                    });
                }
            }
        }
    }

    /// Creates a snapshot of a workspace, and returns the job that merges it.
    async fn job_of(
        &self,
        who: &Principal,
        row: &Workspace,
        wish: &api::Merge,
        request: Option<String>,
    ) -> Result<Job> {
        if row.read_only {
            let message = "the workspace is read-only and has nothing to merge";
            return Err(Failure::new(ErrorCode::WorkspaceReadOnly, message));
        }
        let taken = self.workspaces.take(who, row).await?;
        Ok(Job {
            kind: LandingKind::Merge,
            expected: Some(taken.base),
            unsettled: taken.unsettled,
            workspace: Some(row.id.clone()),
            agent: row.agent.clone(),
            rights: row.agent.clone(),
            ..Job::new(who, wish, taken.snapshot, request)
        })
    }

    /// Merges a workspace for the last time, and deletes it.
    pub(crate) async fn complete(
        self: &Arc<Self>,
        who: &Principal,
        id: &WorkspaceId,
        wish: api::Merge,
        once: Once,
    ) -> Result<api::MergeResult> {
        who.needs(Scope::ProjectsWrite)?;
        if let Some(done) = self.completed_before(who, id, &wish, &once).await? {
            return Ok(done);
        }
        let row = self.workspaces.visible(who, id).await?;
        self.workspaces.not_in_a_sandbox(&row).await?;
        let project = self.projects.of_workspace(&row).await?;
        match wish.dry_run {
            true => once.rehearsed(),
            // Recorded before the merge. A retry that finds no workspace needs
            // the project to look up the result.
            false => once.note(&Completing::new(&project, &row)).await?,
        }
        let result = match row.read_only {
            true => out::nothing(&project, row.base),
            false => {
                self.merge_row(who, &row, &wish, once.landing(), true)
                    .await?
            }
        };
        if !result.dry_run {
            self.remove_completed(&row, &result).await?;
        }
        Ok(result)
    }

    /// Deletes a workspace after its last merge, unless the merge refused
    /// changes: only the workspace has them.
    pub(crate) async fn remove_completed(
        &self,
        row: &Workspace,
        result: &api::MergeResult,
    ) -> Result<()> {
        match result.refused_count {
            0 => self.workspaces.forget_workspace(row).await,
            _ => Ok(()),
        }
    }
}
