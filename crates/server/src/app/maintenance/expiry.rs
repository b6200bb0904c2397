//! Expiry of sandboxes and of parked workspaces.
//!
//! ```text
//! sandbox expired ─► processes stop ─► unsaved changes? ─ no ─► deleted
//!                                      │ yes, or unknown
//!                                      ▼
//!                        parked for `EXPIRED_KEEP` ─► deleted
//!                                      │
//!                                      └─ resumed by POST /sandboxes ─► live
//! ```

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use elevo_agent_link::AgentLinks;
use elevo_api::OnExpiry;
use elevo_catalog::Catalog;
use elevo_catalog::{EventKind, NodeId, Sandbox, SandboxChange, Workspace, WorkspaceChange};
use elevo_core::{SandboxState, TenantId, Timestamp};
use elevo_engine::Progress;
use elevo_objects::Tree;
use elevo_sandbox::SandboxRuntime;
use elevo_workspace::Error as WorkspaceError;
use futures::StreamExt;
use futures::executor::block_on;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::app::resources::Resources;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::sandboxes::rows::container_of;
use crate::app::sandboxes::spec::Spec;
use crate::app::sandboxes::starts::Starts;
use crate::app::snapshots::OWN;
use crate::app::tenant_stores::TenantStores;
use crate::app::timekeeping::Timekeeper;
use crate::app::workspaces::Workspaces;
use crate::failure::Result;
use crate::platform::audit::{Audit, Entry};
use crate::platform::clock;

/// Maximum sandboxes and workspaces of one tenant that expire at the same time.
const AT_ONCE: usize = 8;
/// Time for processes to stop before they are killed.
const GRACE: Duration = Duration::from_secs(5);
/// Pause before the next expiry task of a tenant after an expiry has failed.
const PAUSE: Duration = Duration::from_secs(10);

/// The tenants that have an expiry task: running, or in its pause.
#[derive(Debug, Default)]
pub(crate) struct Ending(Mutex<HashSet<TenantId>>);

impl Ending {
    /// Claims a tenant for a task; `None` if the tenant has a task.
    fn begin(self: &Arc<Self>, tenant: TenantId) -> Option<Turn> {
        let mut tenants = self.0.lock();
        tenants.insert(tenant).then(|| Turn {
            of: self.clone(),
            tenant,
        })
    }
}

/// The claim of a task on a tenant, released on drop.
struct Turn {
    of: Arc<Ending>,
    tenant: TenantId,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut tenants = self.of.0.lock();
        tenants.remove(&self.tenant);
    }
}

/// A resource that has expired.
enum Expired {
    Sandbox(Sandbox),
    Workspace(Workspace),
}

/// Stops expired sandboxes and parks or deletes their workspaces, and deletes
/// expired parked workspaces.
pub(crate) struct Expiry {
    audit: Arc<Audit>,
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    links: AgentLinks,
    locks: Arc<SandboxLocks>,
    runtime: Arc<dyn SandboxRuntime>,
    stores: Arc<TenantStores>,
    time: Arc<Timekeeper>,
    starts: Arc<Starts>,
    workspaces: Arc<Workspaces>,
    ending: Arc<Ending>,
}

impl Expiry {
    pub(crate) fn new(
        resources: &Resources,
        starts: &Arc<Starts>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        Self {
            audit: resources.audit.clone(),
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            links: resources.links.clone(),
            locks: resources.locks.clone(),
            runtime: resources.runtime.clone(),
            starts: starts.clone(),
            stores: resources.stores.clone(),
            time: resources.time.clone(),
            workspaces: workspaces.clone(),
            ending: Arc::default(),
        }
    }

    /// Expires all sandboxes and workspaces of this node that are due, and waits for the
    /// tasks that it starts. Returns the number of expired sandboxes.
    pub(crate) async fn remove_expired(self: &Arc<Self>) -> Result<u64> {
        let mut removed = 0;
        for ending in self.begin_expiry().await? {
            removed += ending.await.unwrap_or_default().0;
        }
        Ok(removed)
    }

    /// Starts a task for each tenant with expired sandboxes or workspaces, so
    /// that no tenant waits for another. A task returns the number of expired
    /// sandboxes and the number of failures.
    pub(crate) async fn begin_expiry(self: &Arc<Self>) -> Result<Vec<JoinHandle<(u64, u64)>>> {
        let (now, most) = (self.time.now().await?, elevo_catalog::MAX_PAGE);
        let mut expired: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let (catalog, node) = (&self.catalog, self.node);
        let sandboxes = catalog.expired_sandboxes_of_all_tenants(node, now, most);
        for sandbox in sandboxes.await? {
            let of_tenant = expired.entry(sandbox.tenant).or_default();
            of_tenant.push(Expired::Sandbox(sandbox));
        }
        let workspaces = catalog.expired_workspaces_of_all_tenants(node, now, most);
        for row in workspaces.await? {
            let of_tenant = expired.entry(row.tenant).or_default();
            of_tenant.push(Expired::Workspace(row));
        }
        let mut tasks = Vec::new();
        for (tenant, expired) in expired {
            // The erasure of the tenant deletes its sandboxes.
            if self.stores.is_closed(tenant) {
                continue;
            }
            if let Some(turn) = self.ending.begin(tenant) {
                let app = self.clone();
                tasks.push(tokio::spawn(async move {
                    let done = app.end_all(expired, now).await;
                    if done.1 > 0 {
                        // The claim on the tenant is released after the pause.
                        // Without the pause, the job would retry every second.
                        tokio::spawn(async move {
                            tokio::time::sleep(PAUSE).await;
                            drop(turn);
                        });
                    }
                    done
                }));
            }
        }
        Ok(tasks)
    }

    async fn end_all(&self, expired: Vec<Expired>, now: Timestamp) -> (u64, u64) {
        let ending = futures::stream::iter(expired).map(|one| self.end_one(one, now));
        let ended: Vec<_> = ending.buffer_unordered(AT_ONCE).collect().await;
        let count = |is: fn(&Result<bool>) -> bool| ended.iter().filter(|one| is(one)).count();
        (
            count(|one| matches!(one, Ok(true))) as u64,
            count(Result::is_err) as u64,
        )
    }

    /// Expires one sandbox or workspace, and logs a failure. Returns true if a
    /// sandbox has expired.
    async fn end_one(&self, expired: Expired, now: Timestamp) -> Result<bool> {
        let (id, ended) = match &expired {
            Expired::Sandbox(sandbox) => {
                let ended = self.expire_sandbox(sandbox, now).await;
                (sandbox.id.as_str(), ended)
            }
            Expired::Workspace(row) => {
                let ended = self.expire_workspace(row, now).await;
                (row.id.as_str(), ended.map(|()| false))
            }
        };
        if let Err(failure) = &ended {
            tracing::warn!(
                id,
                cause = failure.summary(),
                "cannot delete an expired sandbox or workspace"
            );
        }
        ended
    }

    /// Expires a sandbox. Returns false if it is not due at `now`, the time at
    /// which the expired sandboxes were listed. A new reading of the clock would
    /// be wrong if the clock was set in between.
    async fn expire_sandbox(&self, listed: &Sandbox, now: Timestamp) -> Result<bool> {
        let (tenant, id) = (listed.tenant, &listed.id);
        let held = self.locks.hold(id).await;
        let found = self.catalog.sandbox(tenant, id).await?;
        // The sandbox may have been extended or deleted after it was listed. A
        // starting sandbox expires after its start.
        let is_over = |sandbox: &Sandbox| {
            sandbox.expires <= now && !sandbox.removing && sandbox.state != SandboxState::Starting
        };
        let Some(sandbox) = found.filter(is_over) else {
            return Ok(false);
        };
        // The processes stop first, so that no file changes after the check for
        // unsaved changes.
        self.end_processes(&sandbox).await?;
        let mark = SandboxChange {
            generation: Some(sandbox.generation),
            removing: Some(true),
            keep_workspace: Some(self.keeps_work(&sandbox).await),
            tells: vec![EventKind::SandboxExpired],
            ..SandboxChange::default()
        };
        let marked = self
            .catalog
            .change_sandbox(tenant, id, &mark, clock::now())
            .await?;
        let parked = marked.keep_workspace;
        tracing::info!(sandbox = %id, parked, "sandbox expired");
        self.audit_expired(&marked).await;
        // The deletion acquires the same lock.
        drop(held);
        self.starts.remove(&marked).await?;
        Ok(true)
    }

    /// Stops the processes of a sandbox, and kills those that do not stop in
    /// time.
    async fn end_processes(&self, sandbox: &Sandbox) -> Result<()> {
        if let Some(link) = self.links.get(&sandbox.id) {
            // An error is ignored: the container is killed below.
            let _ = link.shut_down(GRACE).await;
        }
        if let Some(container) = container_of(sandbox) {
            self.runtime.kill(&container).await?;
        }
        self.links.forget(&sandbox.id);
        Ok(())
    }

    /// Returns true if the workspace of an expired sandbox must be parked: it
    /// has unsaved changes, or the check for them has failed. Returns false if
    /// the sandbox is set to be deleted on expiry.
    async fn keeps_work(&self, sandbox: &Sandbox) -> bool {
        let spec = Spec::of(sandbox);
        if spec.is_ok_and(|spec| spec.on_expiry == OnExpiry::Delete) {
            return false;
        }
        self.has_work(sandbox).await.unwrap_or_else(|failure| {
            let cause = failure.summary();
            tracing::warn!(
                sandbox = %sandbox.id,
                cause,
                "cannot check for unsaved changes, so the workspace is parked"
            );
            true
        })
    }

    /// Returns true if the files of a sandbox exist nowhere else: they are
    /// neither landed in its project nor equal to a snapshot that a client knows.
    /// Reads the changed files.
    async fn has_work(&self, sandbox: &Sandbox) -> Result<bool> {
        let id = sandbox.workspace.clone();
        let repository = self.stores.repository(sandbox.tenant);
        let row = self.catalog.workspace(sandbox.tenant, &sandbox.workspace);
        let row = row.await?.filter(|row| row.project.is_some());
        let merged: Option<Tree> = match &row {
            Some(row) if row.read_only => return Ok(false),
            Some(row) => Some(repository.snapshot(row.base).await?.tree),
            None => None,
        };
        let looked = self.stores.with(sandbox.tenant, move |workspaces| {
            let record = match workspaces.get(&id) {
                Err(WorkspaceError::NotFound(_)) => return Ok(false),
                found => found?,
            };
            let tree = workspaces.changes(&id, &Progress::new())?.tree;
            if merged == Some(tree) {
                return Ok(false);
            }
            // Snapshots with the label `OWN` were created by the server itself,
            // so no client knows their ids.
            for known in [record.base, record.origin] {
                let snapshot = block_on(repository.snapshot(known))?;
                if snapshot.tree == tree && !snapshot.labels.contains_key(OWN) {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        looked.await
    }

    async fn audit_expired(&self, sandbox: &Sandbox) {
        let mut about = vec![
            ("sandbox_id", sandbox.id.as_str().into()),
            ("tenant", sandbox.tenant.to_string().into()),
        ];
        if sandbox.keep_workspace {
            about.push(("parked_workspace_id", sandbox.workspace.as_str().into()));
        }
        let entry = Entry {
            event: "sandbox.expired",
            about,
            ..Entry::default()
        };
        self.audit.tell(entry).await;
    }

    /// Deletes an expired parked workspace.
    async fn expire_workspace(&self, row: &Workspace, now: Timestamp) -> Result<()> {
        let change = WorkspaceChange {
            from: Some(row.state),
            generation: Some(row.generation),
            expired_by: Some(now),
            tells: vec![EventKind::WorkspaceExpired],
            ..WorkspaceChange::default()
        };
        match self.workspaces.mark_removing(row, change).await {
            // The workspace was resumed after it was listed.
            Err(elevo_catalog::Error::Changed { .. }) => return Ok(()),
            marked => marked?,
        }
        tracing::info!(workspace = %row.id, "parked workspace expired");
        let entry = Entry {
            event: "workspace.expired",
            about: vec![
                ("workspace_id", row.id.as_str().into()),
                ("tenant", row.tenant.to_string().into()),
            ],
            ..Entry::default()
        };
        self.audit.tell(entry).await;
        self.workspaces.finish_forgetting(row).await
    }
}
