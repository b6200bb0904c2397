//! Deletes containers and workspaces without a row in the catalog, and finishes
//! interrupted deletions.
//!
//! If the cleanup of a tenant, row or container fails, the failure is logged
//! and the cleanup continues with the others. So a single failure does not keep
//! the server from starting. The next run retries what has failed.

use std::collections::HashSet;
use std::sync::Arc;

use elevo_api as api;
use elevo_catalog::Catalog;
use elevo_catalog::{NodeId, ProjectQuery, Sandbox, SandboxQuery, WorkspaceQuery, WorkspaceState};
use elevo_core::{SandboxId, TenantId, WorkspaceId, is_id_text};
use elevo_sandbox::SandboxRuntime;

use crate::app::maintenance::quarantine::Quarantine;
use crate::app::projects::Projects;
use crate::app::resources::Resources;
use crate::app::sandboxes::rows::sandboxes_on;
use crate::app::sandboxes::starts::Starts;
use crate::app::sandboxes::warm_pools::WarmPools;
use crate::app::tenant_stores::TenantStores;
use crate::app::workspaces::Workspaces;
use crate::failure::{Result, log_failure};
use crate::platform::clock;

/// Deletes containers and workspaces without a row, finishes interrupted
/// deletions, and deletes unused layers and networks.
pub(crate) struct Cleanup {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
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
            node: resources.node.id,
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
    /// quarantine, and finishes interrupted deletions. Returns the numbers of
    /// deleted containers and workspaces.
    pub(crate) async fn run(&self) -> api::GcResult {
        let mut cleared = api::GcResult::default();
        log_failure(self.clear_projects().await, "step", "projects", SKIPPED);
        // A new workspace gets its row before its directory. So the list of
        // directories must be older than the list of rows: otherwise a new
        // workspace would seem to have no row.
        let workspaces = self.stores.all_workspaces().await;
        let rows = match sandboxes_on(&*self.catalog, self.node).await {
            Ok(rows) => rows,
            failed => {
                log_failure(failed, "step", "sandboxes", SKIPPED);
                return cleared;
            }
        };
        cleared.cleaned_sandboxes = self.clear_containers(&rows).await;
        for row in rows.iter().filter(|row| row.removing) {
            let removed = self.starts.remove(row).await;
            log_failure(
                removed,
                "sandbox",
                &row.id,
                "cannot finish a deletion; the next run retries",
            );
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
            let standing = self.standing(tenant, &id).await;
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
        // A new container gets its row or its entry in a warm pool before it is
        // created. So the containers must be listed before the rows and the
        // pools. `rows` is older than this list, hence the second list of rows.
        let containers = match self.runtime.list().await {
            Ok(containers) => containers,
            Err(error) => {
                let cause = crate::failure::chain(&error);
                tracing::warn!(
                    cause,
                    "cannot list the containers to clean up; the next run retries"
                );
                return 0;
            }
        };
        let newer = sandboxes_on(&*self.catalog, self.node).await;
        let Some(newer) = log_failure(newer, "step", "containers", SKIPPED) else {
            return 0;
        };
        let all = rows.iter().chain(&newer);
        let known: HashSet<_> = all.map(|row| row.id.as_str()).collect();
        let warm = self.pools.ids();
        // A container whose sandbox id has another form was not created by the
        // server, so it is skipped.
        let found = containers.iter();
        let found = found.filter_map(|container| container.sandbox.parse().ok());
        let unknown = found.filter(|id: &SandboxId| !known.contains(&**id) && !warm.contains(id));
        let removed = self.pools.discard_all(unknown.collect()).await;
        log_failure(
            self.pools.clear_slots(&known).await,
            "step",
            "slots",
            SKIPPED,
        );
        removed
    }

    /// Returns the standing of a workspace. The caller has checked that no
    /// sandbox uses the workspace.
    async fn standing(&self, tenant: TenantId, id: &WorkspaceId) -> Result<Standing> {
        // A workspace whose id has another form was not created by the server,
        // so the server must not delete it.
        if !["sbx-", "ws-"].iter().any(|form| is_id_text(form, id)) {
            return Ok(Standing::Known);
        }
        if let Some(row) = self.catalog.workspace(tenant, id).await? {
            return Ok(match row.state {
                WorkspaceState::Removing => Standing::Removing,
                _ => Standing::Known,
            });
        }
        Ok(Standing::Unknown)
    }

    /// Finishes interrupted deletions of projects and workspaces.
    async fn clear_projects(&self) -> Result<()> {
        let query = ProjectQuery {
            removing: Some(true),
            ..ProjectQuery::default()
        };
        for project in self.catalog.projects(&query).await?.items {
            // The erasure of the tenant deletes the project.
            if self.stores.is_closed(project.tenant) {
                continue;
            }
            let removed = self
                .projects
                .finish_removal(project.tenant, &project.id)
                .await;
            log_failure(
                removed,
                "project",
                &project.id,
                "cannot finish a deletion; the next run retries",
            );
        }
        let query = WorkspaceQuery {
            state: Some(WorkspaceState::Removing),
            node: Some(self.node),
            ..WorkspaceQuery::default()
        };
        for row in self.catalog.workspaces(&query).await?.items {
            if self.stores.is_closed(row.tenant) {
                continue;
            }
            let removed = self.workspaces.forget_workspace(&row).await;
            log_failure(
                removed,
                "workspace",
                &row.id,
                "cannot finish a deletion; the next run retries",
            );
        }
        Ok(())
    }

    /// Discards the warm sandboxes. If there are no other sandboxes, deletes the
    /// networks and firewall rules of the server, so that a server that never
    /// starts again leaves nothing on its machine.
    pub(crate) async fn leave_engine(&self) -> Result<()> {
        self.pools.drain().await;
        let query = SandboxQuery {
            node: Some(self.node),
            limit: 1,
            ..SandboxQuery::default()
        };
        if !self.catalog.sandboxes(&query).await?.items.is_empty() {
            return Ok(());
        }
        match self.runtime.tear_down().await {
            // The network is not the server's own, or the tools for firewall
            // rules are missing. In both cases the server has created nothing.
            Err(elevo_sandbox::Error::Refused { .. }) => Ok(()),
            left => Ok(left?),
        }
    }

    /// Deletes layers that no workspace uses, once a tenant has many of them.
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

/// Says whether the catalog knows a workspace.
enum Standing {
    /// The catalog has a record of the workspace, or the server did not create
    /// the workspace.
    Known,
    /// The deletion of the workspace was interrupted.
    Removing,
    /// The catalog has no record of the workspace.
    Unknown,
}

/// The log message for a resource or step that is skipped in this run.
const SKIPPED: &str = "a step of the cleanup failed; the next run retries";
