//! Retries of requests that have landed, after the server stopped before it
//! stored their response. The log and the versions of files contain most of
//! that response.

use std::sync::Arc;

use elevo_api as api;
use elevo_catalog::{LandedStep, MAX_PAGE, Project, Workspace, WorkspaceState};
use elevo_objects::SnapshotId;
use serde::{Deserialize, Serialize};

use super::out;
use super::workspaces::no_workspace;
use crate::app::{App, Once, Principal};
use crate::failure::Result;

/// The record of a request that completes a workspace. The workspace may be
/// gone when the request is retried.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Completing {
    project: String,
    /// The workspace's base, if the workspace is read-only.
    unchanged: Option<String>,
}

impl Completing {
    pub(super) fn new(project: &Project, row: &Workspace) -> Self {
        Self {
            project: project.id.clone(),
            unchanged: row.read_only.then(|| row.base.to_string()),
        }
    }
}

impl App {
    /// Returns the result of an earlier attempt, if it has landed.
    pub(super) async fn landed_before(
        &self,
        project: &Project,
        once: &Once,
    ) -> Result<Option<api::MergeResult>> {
        let Some(request) = once.landing().filter(|_| once.is_again()) else {
            return Ok(None);
        };
        let landed = self.catalog.landing_by_request(&project.id, &request);
        match landed.await? {
            Some(landed) => self.result_of(project, landed).await.map(Some),
            None => Ok(None),
        }
    }

    async fn result_of(&self, project: &Project, landed: LandedStep) -> Result<api::MergeResult> {
        let mut result = out::nothing(project, landed.head);
        result.sequence = landed.sequence;
        let Some(sequence) = landed.sequence else {
            return Ok(result);
        };
        if let Some(entry) = self.catalog.landing(&project.id, sequence).await? {
            let count = |name: &str| entry.counts[name].as_u64().unwrap_or_default();
            result.landed_count = count("landed");
            result.conflict_count = count("held");
            result.refused_count = count("refused");
            result.local = count("local");
        }
        let versions = self
            .catalog
            .versions_in(&project.id, sequence, None, MAX_PAGE);
        let versions = versions.await?;
        result.landed = versions.iter().map(|it| out::changed(&it.change)).collect();
        Ok(result)
    }

    /// Returns the result of an earlier attempt to complete a workspace, if it
    /// has landed. Deletes the workspace if the attempt did not get that far.
    pub(super) async fn completed_before(
        self: &Arc<Self>,
        who: &Principal,
        id: &str,
        wish: &api::Merge,
        once: &Once,
    ) -> Result<Option<api::MergeResult>> {
        let Some(noted) = once.noted::<Completing>() else {
            return Ok(None);
        };
        let project = self.project_of(who, &noted.project).await?;
        let landed = self.landed_before(&project, once).await?;
        let unchanged = noted.unchanged.and_then(|base| base.parse().ok());
        let unchanged = unchanged.map(|base: SnapshotId| out::nothing(&project, base));
        let row = self.catalog.workspace(who.tenant, id).await?;
        match (landed.or(unchanged), row) {
            (None, Some(row)) if row.state != WorkspaceState::Removing => Ok(None),
            (None, _) => Err(no_workspace(id)),
            (Some(done), None) => Ok(Some(done)),
            (Some(done), Some(row)) => self.complete_again(who, &row, wish, done).await.map(Some),
        }
    }

    /// Merges the changes made since an earlier attempt landed, and deletes the
    /// workspace.
    async fn complete_again(
        self: &Arc<Self>,
        who: &Principal,
        row: &Workspace,
        wish: &api::Merge,
        done: api::MergeResult,
    ) -> Result<api::MergeResult> {
        let mut result = done;
        if row.state != WorkspaceState::Removing && !row.read_only {
            let since = self.merge_row(who, row, wish, None, true).await?;
            if since.landed_count > 0 || since.refused_count > 0 {
                result = since;
            }
        }
        self.remove_completed(row, &result).await?;
        Ok(result)
    }
}
