//! Workspaces that keep up with their project by themselves.
//!
//! What is due is worked out from the rows; that a look was taken is remembered
//! only to space the looks out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{KeyLimits, Workspace, WorkspaceQuery, WorkspaceState};
use elevo_engine::Progress;

use crate::app::{App, Principal, parts};
use crate::clock;
use crate::failure::Result;

/// Seconds between two looks, if the workspace does not say.
const LAZY: u32 = 45;
const REGULAR: u32 = 7;

/// How often workspaces that follow events are looked at for what was written.
const WRITTEN: Duration = Duration::from_secs(2);

/// When each workspace was last looked at.
#[derive(Debug, Default)]
pub(crate) struct Looks(HashMap<String, Instant>);

impl App {
    /// Brings up to date, and merges, what is due.
    pub(crate) async fn synchronise(self: &Arc<Self>, looks: &mut Looks) -> Result<()> {
        let rows = self.synchronised(None).await?;
        looks.0.retain(|id, _| rows.iter().any(|row| row.id == *id));
        let now = clock::instant();
        for row in rows {
            let sync = sync_of(&row);
            let seconds = |default| Duration::from_secs(sync.seconds.unwrap_or(default).into());
            let period = match sync.mode {
                api::SyncMode::Manual => continue,
                api::SyncMode::Lazy => seconds(LAZY),
                api::SyncMode::Regular => seconds(REGULAR),
                api::SyncMode::Event => WRITTEN,
            };
            let last = looks.0.entry(row.id.clone()).or_insert(now);
            if now.duration_since(*last) < period {
                continue;
            }
            *last = now;
            self.synchronise_one(&row, sync.mode).await;
        }
        Ok(())
    }

    /// Brings the workspaces of a project up to date that follow events.
    pub(crate) async fn head_has_moved(self: &Arc<Self>, project: &str) -> Result<()> {
        for row in self.synchronised(Some(project)).await? {
            if sync_of(&row).mode == api::SyncMode::Event {
                self.refresh_quietly(&row).await;
            }
        }
        Ok(())
    }

    async fn synchronise_one(self: &Arc<Self>, row: &Workspace, mode: api::SyncMode) {
        let merges = mode != api::SyncMode::Lazy && !row.read_only;
        if merges && self.was_written(row).await.unwrap_or(true) {
            let wish = api::Merge {
                message: "merged by itself".into(),
                ..api::Merge::default()
            };
            if let Err(failure) = self.merge_row(&itself(row), row, &wish, None).await {
                told(row, "not merged", &failure);
            }
        }
        self.refresh_quietly(row).await;
    }

    async fn refresh_quietly(self: &Arc<Self>, row: &Workspace) {
        let is_current = match self.project_of_row(row).await {
            Ok(project) => project.head == row.synced,
            Err(_) => return,
        };
        if is_current {
            return;
        }
        let who = itself(row);
        let refreshed = self.refresh_workspace(&who, &row.id, api::Refresh::default());
        if let Err(failure) = refreshed.await {
            told(row, "not refreshed", &failure);
        }
    }

    /// Whether anything is in a workspace that is not merged.
    async fn was_written(&self, row: &Workspace) -> Result<bool> {
        let id = parts::workspace_id(&row.id)?;
        let base = self.homes.repository(row.tenant).snapshot(row.base).await?;
        let changes = self.homes.with(row.tenant, move |workspaces| {
            let changes = workspaces.changes(&id, &Progress::new())?;
            Ok(changes.tree != base.tree)
        });
        changes.await
    }

    /// Live workspaces that keep up by themselves.
    async fn synchronised(&self, project: Option<&str>) -> Result<Vec<Workspace>> {
        let mut query = WorkspaceQuery {
            project: project.map(str::to_owned),
            state: Some(WorkspaceState::Live),
            ..WorkspaceQuery::default()
        };
        let mut found = Vec::new();
        loop {
            let page = self.catalog.workspaces(&query).await?;
            query.after = page.items.last().map(Workspace::position);
            let is_last = page.items.len() < query.limit as usize;
            let wanted = page
                .items
                .into_iter()
                .filter(|row| row.project.is_some() && sync_of(row).mode != api::SyncMode::Manual);
            found.extend(wanted);
            if is_last {
                return Ok(found);
            }
        }
    }
}

fn sync_of(row: &Workspace) -> api::Sync {
    serde_json::from_value(row.sync.clone()).unwrap_or_default()
}

fn told(row: &Workspace, what: &str, failure: &crate::failure::Failure) {
    tracing::warn!(workspace = row.id, cause = failure.summary(), "{what}");
}

/// A workspace that asks for itself.
fn itself(row: &Workspace) -> Principal {
    Principal {
        tenant: row.tenant,
        agent: row.agent.clone(),
        key: row.key.clone(),
        scopes: vec![Scope::ProjectsRead, Scope::ProjectsWrite],
        limits: KeyLimits::default(),
    }
}
