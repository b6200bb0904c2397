//! Retries of requests that complete a workspace, if the server stopped before it
//! stored their response.

use elevo_core::{ProjectId, WorkspaceId};
use std::sync::Arc;

use elevo_api as api;
use elevo_catalog::{Project, Workspace, WorkspaceState};
use elevo_objects::SnapshotId;
use serde::{Deserialize, Serialize};

use crate::app::access::principal::Principal;
use crate::app::missing::no_workspace;
use crate::app::projects::merges::Merges;
use crate::app::projects::out;
use crate::app::requests::once::Once;
use crate::failure::Result;

/// The record of a request that completes a workspace. A retry needs it because
/// the workspace may have been deleted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Completing {
    project: ProjectId,
    /// The base of a read-only workspace, which has nothing to merge.
    unchanged: Option<String>,
}

impl Completing {
    pub(crate) fn new(project: &Project, row: &Workspace) -> Self {
        Self {
            project: project.id.clone(),
            unchanged: row.read_only.then(|| row.base.to_string()),
        }
    }
}

impl Merges {
    /// Returns the result of an earlier attempt to complete a workspace, if that
    /// attempt has landed. Deletes the workspace if the attempt had not yet
    /// deleted it.
    pub(crate) async fn completed_before(
        self: &Arc<Self>,
        who: &Principal,
        id: &WorkspaceId,
        wish: &api::Merge,
        once: &Once,
    ) -> Result<Option<api::MergeResult>> {
        let Some(noted) = once.noted::<Completing>() else {
            return Ok(None);
        };
        let project = self.projects.find(who, &noted.project.into()).await?;
        let landed = self.landings.landed_before(&project, once).await?;
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

    /// Deletes the workspace of an earlier attempt. If an agent has changed files
    /// since that attempt landed, lands those changes first.
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
