//! Recovery: reconciles rows, containers and workspaces at the start of the
//! server, when something ends unexpectedly, and on request.
//!
//! ```text
//! row         container     then
//! removing    any           the deletion continues
//! starting    any           rolled back: its id was never returned
//!   (again)   any           error, its workspace whole
//! running     running       waits for its agent; error if that does not come
//! running     not running   error, with the reason
//! running     none          error
//! stopping    any           stopped
//! stopped     running       stopped, again
//! none        any           the container is deleted, with its slot
//! none        –             its workspace goes to the quarantine, unless it is parked
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use elevo_catalog::Catalog;
use elevo_catalog::Sandbox;
use elevo_core::{ErrorCode, SandboxState};
use elevo_sandbox::SandboxRuntime;
use elevo_sandbox::{Container, ContainerState};

use crate::app::maintenance::cleanup::Cleanup;
use crate::app::resources::Resources;
use crate::app::sandboxes::containers::Containers;
use crate::app::sandboxes::reasons::GONE;
use crate::app::sandboxes::rows::all_sandboxes;
use crate::app::sandboxes::starts::Starts;
use crate::app::tenant_stores::TenantStores;
use crate::app::workspaces::Workspaces;
use crate::failure::Result;

/// Reconciles the catalog with the machine after a start.
pub(crate) struct Recovery {
    catalog: Arc<dyn Catalog>,
    runtime: Arc<dyn SandboxRuntime>,
    stores: Arc<TenantStores>,
    cleanup: Arc<Cleanup>,
    containers: Arc<Containers>,
    starts: Arc<Starts>,
    workspaces: Arc<Workspaces>,
    /// Sandboxes of the previous server process that are not reconciled with the
    /// container engine yet.
    unrecovered: std::sync::Mutex<HashSet<String>>,
}

impl Recovery {
    pub(crate) fn new(
        resources: &Resources,
        cleanup: &Arc<Cleanup>,
        containers: &Arc<Containers>,
        starts: &Arc<Starts>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            cleanup: cleanup.clone(),
            containers: containers.clone(),
            runtime: resources.runtime.clone(),
            starts: starts.clone(),
            stores: resources.stores.clone(),
            workspaces: workspaces.clone(),
            unrecovered: std::sync::Mutex::default(),
        }
    }

    /// Reconciles everything after a start.
    pub(crate) async fn run(self: &Arc<Self>) -> Result<()> {
        let rows = all_sandboxes(&*self.catalog).await?;
        *self.unrecovered() = rows.into_iter().map(|row| row.id).collect();
        if let Err(failure) = self.recover_sandboxes().await {
            let cause = failure.summary();
            tracing::warn!(cause, "sandboxes are recovered once the engine responds");
        }
        self.workspaces.adopt_kept().await;
        let cleared = self.cleanup.run().await;
        tracing::info!(
            sandboxes = cleared.cleaned_sandboxes,
            workspaces = cleared.cleaned_workspaces,
            "recovered"
        );
        Ok(())
    }

    fn unrecovered(&self) -> MutexGuard<'_, HashSet<String>> {
        let unrecovered = self.unrecovered.lock();
        unrecovered.unwrap_or_else(PoisonError::into_inner)
    }

    /// Reconciles the sandboxes of an earlier server with the container engine.
    /// Fails if the engine does not respond; a later call does the rest.
    /// Sandboxes of this server are not among them.
    pub(crate) async fn recover_sandboxes(&self) -> Result<()> {
        let ids: Vec<_> = self.unrecovered().iter().cloned().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let containers = self.runtime.list().await?;
        let containers: HashMap<_, _> = containers
            .into_iter()
            .map(|container| (container.sandbox.clone(), container))
            .collect();
        for id in ids {
            match self.recover_by_id(&id, containers.get(&id)).await {
                Err(failure) if failure.code == ErrorCode::RuntimeUnavailable => {
                    // This sandbox and the rest stay in the set, for the next
                    // call.
                    return Err(failure);
                }
                Err(failure) => {
                    let cause = failure.summary();
                    tracing::error!(sandbox = id, cause, "cannot recover a sandbox");
                }
                Ok(()) => {}
            }
            self.unrecovered().remove(&id);
        }
        Ok(())
    }

    async fn recover_by_id(&self, id: &str, container: Option<&Container>) -> Result<()> {
        // Read again: if the engine did not respond at the start, the row may
        // have changed or be gone since.
        match self.catalog.sandbox_of_any_tenant(id).await? {
            // The erasure of its tenant deletes it.
            Some(sandbox) if self.stores.is_closed(sandbox.tenant) => Ok(()),
            Some(sandbox) => self.recover_one(&sandbox, container).await,
            None => Ok(()),
        }
    }

    async fn recover_one(&self, sandbox: &Sandbox, container: Option<&Container>) -> Result<()> {
        use SandboxState::{Error, Running, Starting, Stopped, Stopping};
        if sandbox.removing {
            return self.starts.remove(sandbox).await;
        }
        let runs = container.is_some_and(|container| {
            container.state != ContainerState::Exited && container.state != ContainerState::Created
        });
        let id = &sandbox.id;
        match sandbox.state {
            // Its id was never returned: a client gets it only once the sandbox
            // runs.
            Starting if sandbox.reason.is_none() => self.starts.give_up(id).await,
            Starting => {
                let reason = Some("the server stopped while the sandbox was starting".into());
                self.starts.change(id, &[Starting], Error, reason).await?;
            }
            Running if runs => {
                self.thaw(container).await;
                self.show_again(sandbox).await?;
            }
            Running => {
                let reason = match container {
                    Some(container) => self.containers.why_ended(&container.id).await?,
                    None => GONE.to_owned(),
                };
                self.starts
                    .change(id, &[Running], Error, Some(reason))
                    .await?;
            }
            Stopping | Stopped => {
                if let Some(container) = container.filter(|_| runs) {
                    self.runtime.kill(&container.id).await?;
                }
                if sandbox.state == Stopping {
                    self.starts.change(id, &[Stopping], Stopped, None).await?;
                }
            }
            Error => {}
        }
        Ok(())
    }

    /// A server that was killed while it attached a workspace to a container
    /// may not have shown it there.
    async fn show_again(&self, sandbox: &Sandbox) -> Result<()> {
        let id = crate::app::tenant_stores::workspace_id(&sandbox.workspace)?;
        let shown = self.stores.with(sandbox.tenant, move |workspaces| {
            if workspaces.shares(&id)? {
                let binding = workspaces.bind(&id)?;
                workspaces.show(binding)?;
            }
            Ok(())
        });
        shown.await
    }

    /// A server that was killed during a snapshot may have left the container
    /// frozen.
    async fn thaw(&self, container: Option<&Container>) {
        if let Some(container) = container
            && container.state == ContainerState::Frozen
            && let Err(error) = self.runtime.thaw(&container.id).await
        {
            let cause = crate::failure::chain(&error);
            tracing::error!(
                sandbox = container.sandbox,
                cause,
                "cannot thaw a container"
            );
        }
    }
}
