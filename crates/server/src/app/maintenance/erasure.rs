//! Erasure of tenants.
//!
//! A tenant that is marked for erasure loses all its data, and then its row
//! with the mark:
//!
//! ```text
//! marked       the keys are rejected, streams end, no data is added
//! sandboxes    the containers, then their rows
//!              waits until no request and no job works for the tenant
//! workspaces   the directory of the tenant with its pool of uppers: live, parked,
//!              kept and quarantined workspaces
//! rows         webhooks, requests, projects, workspaces, keys, agents, events
//! store        refs, then snapshots and objects
//! tenant       a record in the audit log, then the row
//! ```
//!
//! Of several servers, each deletes its own sandboxes and workspaces. The last one
//! deletes the rest.
//!
//! Each step deletes data because of the mark alone, never because other data is
//! missing, and each step can be repeated. So after a crash the erasure simply
//! starts at the first step.

use elevo_catalog::{Catalog, NodeId, Tenant, WorkspaceQuery};
use elevo_core::TenantId;
use elevo_engine::{
    Commit, Error as EngineError, Expected, GcOptions, GcProgress, GcScope, ReferenceUpdate,
    Repository, collect_garbage,
};
use elevo_store_local::LocalStore;
use futures::executor::block_on;
use std::sync::Arc;

use crate::app::access::tenants::Tenants;
use crate::app::events::webhooks::Webhooks;
use crate::app::maintenance::collecting::Collecting;
use crate::app::maintenance::garbage::not_collected;
use crate::app::resources::Resources;
use crate::app::sandboxes::rows::sandboxes_of;
use crate::app::sandboxes::starts::Starts;
use crate::app::tenant_stores::TenantStores;
use crate::failure::Result;
use crate::platform::audit::{Audit, Entry};
use crate::platform::installation::Installation;
use crate::platform::{clock, installation};

/// Maximum refs deleted in one commit.
const PAGE: usize = 1000;

/// Erases the tenants that are marked for erasure.
pub(crate) struct Erasure {
    local_store: Option<Arc<LocalStore>>,
    audit: Arc<Audit>,
    catalog: Arc<dyn Catalog>,
    collecting: Arc<Collecting>,
    installation: Arc<Installation>,
    node: NodeId,
    stores: Arc<TenantStores>,
    starts: Arc<Starts>,
    tenants: Arc<Tenants>,
    webhooks: Arc<Webhooks>,
}

impl Erasure {
    pub(crate) fn new(
        resources: &Resources,
        starts: &Arc<Starts>,
        tenants: &Arc<Tenants>,
        webhooks: &Arc<Webhooks>,
    ) -> Self {
        Self {
            local_store: resources.local_store.clone(),
            audit: resources.audit.clone(),
            catalog: resources.catalog.clone(),
            collecting: resources.collecting.clone(),
            installation: resources.installation.clone(),
            node: resources.node.id,
            starts: starts.clone(),
            stores: resources.stores.clone(),
            tenants: tenants.clone(),
            webhooks: webhooks.clone(),
        }
    }

    /// Closes the stores of marked tenants after a start, so that no request and
    /// no job can work for those tenants.
    pub(crate) async fn close_erased(&self) -> Result<()> {
        for tenant in self.being_erased().await? {
            self.stores.close(tenant.id);
        }
        Ok(())
    }

    async fn being_erased(&self) -> Result<Vec<Tenant>> {
        let mut tenants = self.catalog.tenants().await?;
        tenants.retain(|tenant| tenant.erasing.is_some());
        Ok(tenants)
    }

    /// Continues the erasure of every marked tenant. The next call retries a
    /// tenant that fails.
    pub(crate) async fn run(&self) -> Result<()> {
        for tenant in self.being_erased().await? {
            // An adopted catalog may be an old copy whose marks are no longer
            // valid. The delay gives the operator time to notice that.
            if installation::held_until(&*self.catalog, clock::now())
                .await?
                .is_some()
            {
                tracing::debug!(
                    "tenants are not erased for a day after the adoption of a data directory"
                );
                return Ok(());
            }
            let id = tenant.id;
            match self.erase(&tenant).await {
                Ok(true) => tracing::info!(tenant = %id, "erased a tenant"),
                Ok(false) => {
                    tracing::info!(
                        tenant = %id,
                        "the erasure waits for running requests and jobs of the tenant"
                    );
                }
                Err(failure) => {
                    let cause = failure.summary();
                    tracing::warn!(
                        tenant = %id,
                        cause,
                        "cannot erase a tenant; the next run retries"
                    );
                }
            }
        }
        Ok(())
    }

    /// Erases a tenant. Returns `false` if requests, jobs or readers still work
    /// for the tenant; a later call continues.
    async fn erase(&self, tenant: &Tenant) -> Result<bool> {
        let id = tenant.id;
        self.stores.close(id);
        // A running backup reads the catalog, the workspaces and the store one
        // after another, and they must match.
        let _still = self.collecting.pause().await;
        if !self.erase_sandboxes(id).await? || !self.tenants.is_idle(id) {
            return Ok(false);
        }
        // Deletes the workspaces.
        if !self.stores.erase(id).await? || !self.leave_to_others(id).await? {
            return Ok(false);
        }
        self.catalog.clear_tenant(id).await?;
        self.webhooks.look_again();
        if !self.erase_stored(id).await? {
            return Ok(false);
        }
        // The erasure is recorded before the row is deleted. So after a crash
        // in between, the audit log has two records of the erasure instead of
        // none.
        self.audit_removed(tenant).await;
        self.catalog.remove_tenant(id).await?;
        self.stores.forget(id);
        self.tenants.forget(id);
        Ok(true)
    }

    /// Deletes the sandboxes of a tenant. Returns `false` if one is being
    /// created.
    async fn erase_sandboxes(&self, tenant: TenantId) -> Result<bool> {
        let (mut is_done, mut first_failure) = (true, None);
        for sandbox in sandboxes_of(&*self.catalog, tenant).await? {
            // Its server erases it.
            if sandbox.node != self.node {
                continue;
            }
            // The task that starts this sandbox could create its container
            // after the deletion.
            if self.starts.is_being_made(&sandbox.id) {
                is_done = false;
                continue;
            }
            if let Err(failure) = self.starts.remove(&sandbox).await {
                let (id, cause) = (sandbox.id.as_str(), failure.summary());
                tracing::warn!(
                    sandbox = id,
                    cause,
                    "cannot erase a sandbox; the next run retries"
                );
                first_failure.get_or_insert(failure);
            }
        }
        first_failure.map_or(Ok(is_done), Err)
    }

    /// Deletes the rows of this server's workspaces, whose files are deleted.
    /// Returns `false` if the tenant has sandboxes or workspaces on other servers,
    /// which delete them.
    async fn leave_to_others(&self, tenant: TenantId) -> Result<bool> {
        if self.installation.is_alone() {
            return Ok(true);
        }
        let mut query = WorkspaceQuery {
            tenant: Some(tenant),
            ..WorkspaceQuery::default()
        };
        let mut is_last = sandboxes_of(&*self.catalog, tenant).await?.is_empty();
        loop {
            let page = self.catalog.workspaces(&query).await?.items;
            let Some(last) = page.last() else {
                return Ok(is_last);
            };
            query.after = Some(last.position());
            for workspace in page {
                if workspace.node == self.node {
                    self.catalog.remove_workspace(tenant, &workspace.id).await?;
                } else {
                    is_last = false;
                }
            }
        }
    }

    /// Deletes all refs, snapshots and objects of a tenant. Returns `false` if a
    /// lease still keeps some of them.
    async fn erase_stored(&self, tenant: TenantId) -> Result<bool> {
        let repository = self.stores.repository(tenant);
        let local = self.local_store.clone();
        let erasing = self.stores.blocking(tenant, move || {
            let is_empty = erase_from(&repository).map_err(not_collected)?;
            if is_empty && let Some(local) = local {
                let forgotten = local.forget(tenant);
                forgotten.map_err(|error| not_collected(error.into()))?;
            }
            Ok(is_empty)
        });
        erasing.await
    }

    async fn audit_removed(&self, tenant: &Tenant) {
        let entry = Entry {
            event: "tenant.removed",
            about: vec![
                ("tenant_id", tenant.id.to_string().into()),
                ("name", tenant.name.as_str().into()),
            ],
            ..Entry::default()
        };
        self.audit.tell(entry).await;
    }
}

/// Deletes the refs of a tenant, and then all its snapshots and objects by a
/// garbage collection without roots. Returns true if nothing is left.
fn erase_from(repository: &Repository) -> std::result::Result<bool, EngineError> {
    block_on(remove_references(repository))?;
    let options = GcOptions {
        scope: GcScope::Full,
        dry_run: false,
        keep_recent: None,
    };
    // No request and no job works for the tenant, so there are no writers to
    // wait for.
    let mut wait = |_| false;
    let (mut roots, progress) = (std::iter::empty(), GcProgress::default());
    let report = collect_garbage(repository, &mut roots, &options, &mut wait, &progress)?;
    let (store, tenant) = (repository.store(), repository.tenant());
    let snapshots = block_on(store.list_snapshots(tenant, None, 1))?;
    Ok(snapshots.is_empty() && report.objects_seen == report.objects_removed)
}

async fn remove_references(repository: &Repository) -> std::result::Result<(), EngineError> {
    let (store, tenant) = (repository.store(), repository.tenant());
    loop {
        let page = store.list_references(tenant, "", None, PAGE).await?;
        if page.is_empty() {
            return Ok(());
        }
        let remove = |(name, _)| ReferenceUpdate {
            name,
            expected: Expected::Any,
            target: None,
        };
        let commit = Commit {
            references: page.into_iter().map(remove).collect(),
            ..Commit::default()
        };
        store.commit(tenant, commit).await?;
    }
}
