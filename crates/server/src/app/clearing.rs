//! Cleans up resources without a row, and finishes interrupted deletions.
//!
//! A tenant, row or container that fails is logged and skipped: it must not
//! keep the server from starting, nor others from being cleaned up. The next
//! run retries it.

use std::collections::HashSet;

use elevo_api as api;
use elevo_catalog::{ProjectQuery, Sandbox, WorkspaceQuery, WorkspaceState};
use elevo_core::TenantId;
use elevo_workspace::WorkspaceId;

use crate::app::App;
use crate::app::recovery::kept_name;
use crate::clock;
use crate::failure::Result;

impl App {
    /// Deletes containers without a row, moves workspaces without a row to the
    /// quarantine, and finishes interrupted deletions.
    pub(crate) async fn clear_away(&self) -> api::GcResult {
        let mut cleared = api::GcResult::default();
        log_failure(self.clear_projects().await, "step", "projects", SKIPPED);
        // The workspaces are listed before the rows: a new workspace has its
        // row before its directory.
        let workspaces = self.all_workspaces().await;
        let rows = match self.all_sandboxes().await {
            Ok(rows) => rows,
            failed => {
                log_failure(failed, "step", "sandboxes", SKIPPED);
                return cleared;
            }
        };
        cleared.cleaned_sandboxes = self.clear_containers(&rows).await;
        for row in rows.iter().filter(|row| row.removing) {
            let removed = self.remove(row).await;
            log_failure(removed, "sandbox", &row.id, "cannot finish a deletion");
        }
        let used: HashSet<_> = rows
            .iter()
            .map(|row| (row.tenant, row.workspace.as_str()))
            .collect();
        let mut unknown = Vec::new();
        for (tenant, id) in workspaces {
            if used.contains(&(tenant, id.as_str())) {
                continue;
            }
            let standing = self.standing(tenant, id.as_str()).await;
            match log_failure(standing, "workspace", id.as_str(), SKIPPED) {
                Some(Standing::Removing) => {
                    let name = id.to_string();
                    let removed = self.remove_workspace(tenant, id).await;
                    let removed = log_failure(removed, "workspace", &name, SKIPPED);
                    cleared.cleaned_workspaces += u64::from(removed.is_some());
                }
                Some(Standing::Unknown) => unknown.push((tenant, id)),
                Some(Standing::Known) | None => {}
            }
        }
        cleared.cleaned_workspaces += self.quarantine(&unknown, clock::now()).await;
        cleared
    }

    /// Deletes containers and slots that belong neither to `rows` nor to a warm
    /// pool. Returns the number of containers.
    async fn clear_containers(&self, rows: &[Sandbox]) -> u64 {
        // First the containers, then the rows, then the pool: a new container
        // has its row, or is known to be warm, before it exists.
        let containers = match self.runtime.list().await {
            Ok(containers) => containers,
            Err(error) => {
                let cause = crate::failure::chain(&error);
                tracing::warn!(cause, "cannot list containers to clean them up");
                return 0;
            }
        };
        let newer = self.all_sandboxes().await;
        let Some(newer) = log_failure(newer, "step", "containers", SKIPPED) else {
            return 0;
        };
        let all = rows.iter().chain(&newer);
        let known: HashSet<_> = all.map(|row| row.id.as_str()).collect();
        let warm = self.pool.ids();
        let unknown = containers.into_iter().map(|container| container.sandbox);
        let unknown = unknown.filter(|name| !known.contains(name.as_str()) && !warm.contains(name));
        let removed = self.discard_all(unknown.collect()).await;
        log_failure(self.clear_slots(&known).await, "step", "slots", SKIPPED);
        removed
    }

    /// Returns the state in the catalog of a workspace without a sandbox.
    async fn standing(&self, tenant: TenantId, id: &str) -> Result<Standing> {
        if !["sbx-", "ws-"].iter().any(|form| clock::is_id(form, id)) {
            return Ok(Standing::Known);
        }
        if let Some(row) = self.catalog.workspace(tenant, id).await? {
            return Ok(match row.state {
                WorkspaceState::Removing => Standing::Removing,
                _ => Standing::Known,
            });
        }
        let kept = self.catalog.setting(&kept_name(id)).await?;
        Ok(match kept {
            Some(_) => Standing::Known,
            None => Standing::Unknown,
        })
    }

    /// Finishes interrupted deletions of projects and workspaces.
    async fn clear_projects(&self) -> Result<()> {
        let query = ProjectQuery {
            removing: Some(true),
            ..ProjectQuery::default()
        };
        for project in self.catalog.projects(&query).await?.items {
            if self.homes.is_closed(project.tenant) {
                continue;
            }
            let removed = self.finish_removal(project.tenant, &project.id).await;
            log_failure(removed, "project", &project.id, "cannot finish a deletion");
        }
        let query = WorkspaceQuery {
            state: Some(WorkspaceState::Removing),
            ..WorkspaceQuery::default()
        };
        for row in self.catalog.workspaces(&query).await?.items {
            if self.homes.is_closed(row.tenant) {
                continue;
            }
            let removed = self.forget_workspace(&row).await;
            log_failure(removed, "workspace", &row.id, "cannot finish a deletion");
        }
        Ok(())
    }

    /// Deletes layers that no workspace needs, if there are many.
    pub(crate) async fn tidy_layers(&self) {
        for tenant in self.homes.known() {
            let tidied = self.homes.with(tenant, |workspaces| Ok(workspaces.tidy()?));
            log_failure(
                tidied.await,
                "tenant",
                &tenant.to_string(),
                "cannot delete unused layers",
            );
        }
    }

    /// Returns the workspaces of all tenants that can be listed.
    pub(super) async fn all_workspaces(&self) -> Vec<(TenantId, WorkspaceId)> {
        let mut all = Vec::new();
        for tenant in self.homes.known() {
            let listed = self.homes.with(tenant, |workspaces| Ok(workspaces.list()?));
            let listed = listed.await;
            let what = "its workspaces cannot be listed";
            let listed = log_failure(listed, "tenant", &tenant.to_string(), what);
            let records = listed.into_iter().flatten();
            all.extend(records.map(|record| (tenant, record.id)));
        }
        all
    }
}

/// The state of a workspace in the catalog.
enum Standing {
    /// It is kept, or does not belong to the server.
    Known,
    /// Its deletion was interrupted.
    Removing,
    /// The catalog has no record of it.
    Unknown,
}

const SKIPPED: &str = "cannot clean up";

/// Logs a failure and continues: one row must not stop a loop over others.
pub(super) fn log_failure<T>(done: Result<T>, kind: &str, id: &str, what: &str) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(failure) => {
            tracing::error!(kind, id, cause = failure.summary(), "{what}");
            None
        }
    }
}
