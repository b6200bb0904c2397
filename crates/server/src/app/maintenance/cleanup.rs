//! Cleans up resources without a row, and finishes interrupted deletions.
//!
//! A tenant, row or container that fails is logged and skipped: it must not
//! keep the server from starting, nor others from being cleaned up. The next
//! run retries it.

use std::collections::HashSet;
use std::sync::Arc;

use elevo_api as api;
use elevo_catalog::Catalog;
use elevo_catalog::{ProjectQuery, Sandbox, SandboxQuery, WorkspaceQuery, WorkspaceState};
use elevo_core::TenantId;
use elevo_sandbox::SandboxRuntime;

use crate::app::maintenance::quarantine::Quarantine;
use crate::app::projects::Projects;
use crate::app::resources::Resources;
use crate::app::sandboxes::rows::all_sandboxes;
use crate::app::sandboxes::starts::Starts;
use crate::app::sandboxes::warm_pools::WarmPools;
use crate::app::tenant_stores::TenantStores;
use crate::app::workspaces::Workspaces;
use crate::app::workspaces::parking::kept_name;
use crate::failure::{Result, log_failure};
use crate::platform::clock;

/// Finishes interrupted deletions, and deletes leftovers.
pub(crate) struct Cleanup {
    catalog: Arc<dyn Catalog>,
    runtime: Arc<dyn SandboxRuntime>,
    stores: Arc<TenantStores>,
    pools: Arc<WarmPools>,
    projects: Arc<Projects>,
    quarantine: Arc<Quarantine>,
    starts: Arc<Starts>,
    workspaces: Arc<Workspaces>,
}

impl Cleanup {
    pub(crate) fn new(
        resources: &Resources,
        pools: &Arc<WarmPools>,
        projects: &Arc<Projects>,
        quarantine: &Arc<Quarantine>,
        starts: &Arc<Starts>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            pools: pools.clone(),
            projects: projects.clone(),
            quarantine: quarantine.clone(),
            runtime: resources.runtime.clone(),
            starts: starts.clone(),
            stores: resources.stores.clone(),
            workspaces: workspaces.clone(),
        }
    }

    /// Deletes containers without a row, moves workspaces without a row to the
    /// quarantine, and finishes interrupted deletions.
    pub(crate) async fn run(&self) -> api::GcResult {
        let mut cleared = api::GcResult::default();
        log_failure(self.clear_projects().await, "step", "projects", SKIPPED);
        // The workspaces are listed before the rows: a new workspace has its
        // row before its directory.
        let workspaces = self.stores.all_workspaces().await;
        let rows = match all_sandboxes(&*self.catalog).await {
            Ok(rows) => rows,
            failed => {
                log_failure(failed, "step", "sandboxes", SKIPPED);
                return cleared;
            }
        };
        cleared.cleaned_sandboxes = self.clear_containers(&rows).await;
        for row in rows.iter().filter(|row| row.removing) {
            let removed = self.starts.remove(row).await;
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
                    let removed = self.stores.remove_workspace(tenant, id).await;
                    let removed = log_failure(removed, "workspace", &name, SKIPPED);
                    cleared.cleaned_workspaces += u64::from(removed.is_some());
                }
                Some(Standing::Unknown) => unknown.push((tenant, id)),
                Some(Standing::Known) | None => {}
            }
        }
        cleared.cleaned_workspaces += self.quarantine.add(&unknown, clock::now()).await;
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
        let newer = all_sandboxes(&*self.catalog).await;
        let Some(newer) = log_failure(newer, "step", "containers", SKIPPED) else {
            return 0;
        };
        let all = rows.iter().chain(&newer);
        let known: HashSet<_> = all.map(|row| row.id.as_str()).collect();
        let warm = self.pools.ids();
        let unknown = containers.into_iter().map(|container| container.sandbox);
        let unknown = unknown.filter(|name| !known.contains(name.as_str()) && !warm.contains(name));
        let removed = self.pools.discard_all(unknown.collect()).await;
        log_failure(
            self.pools.clear_slots(&known).await,
            "step",
            "slots",
            SKIPPED,
        );
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
            if self.stores.is_closed(project.tenant) {
                continue;
            }
            let removed = self
                .projects
                .finish_removal(project.tenant, &project.id)
                .await;
            log_failure(removed, "project", &project.id, "cannot finish a deletion");
        }
        let query = WorkspaceQuery {
            state: Some(WorkspaceState::Removing),
            ..WorkspaceQuery::default()
        };
        for row in self.catalog.workspaces(&query).await?.items {
            if self.stores.is_closed(row.tenant) {
                continue;
            }
            let removed = self.workspaces.forget_workspace(&row).await;
            log_failure(removed, "workspace", &row.id, "cannot finish a deletion");
        }
        Ok(())
    }

    /// Deletes networks and rules if no sandbox needs them again: a server that
    /// is gone for good leaves nothing on its machine.
    pub(crate) async fn leave_engine(&self) -> Result<()> {
        self.pools.drain().await;
        let query = SandboxQuery {
            limit: 1,
            ..SandboxQuery::default()
        };
        if !self.catalog.sandboxes(&query).await?.items.is_empty() {
            return Ok(());
        }
        match self.runtime.tear_down().await {
            // The network belongs to others, or the tools for rules are missing:
            // then there is nothing to delete.
            Err(elevo_sandbox::Error::Refused { .. }) => Ok(()),
            left => Ok(left?),
        }
    }

    /// Deletes layers that no workspace needs, if there are many.
    pub(crate) async fn tidy_layers(&self) {
        for tenant in self.stores.known() {
            let tidied = self
                .stores
                .with(tenant, |workspaces| Ok(workspaces.tidy()?));
            log_failure(
                tidied.await,
                "tenant",
                &tenant.to_string(),
                "cannot delete unused layers",
            );
        }
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
