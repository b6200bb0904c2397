//! Recovery after the start of the server: makes the rows of sandboxes match the
//! containers and workspaces that the last server process left on this node. The
//! rows of other nodes stay as they are.
//!
//! ```text
//! row         container     action
//! removing    any           finish the deletion
//! starting    any           first start: roll back, since no client knows the id
//!                           later start: state error, the workspace is kept
//! running     running       wait for the agent; state error if it does not connect
//! running     not running   state error, with the reason
//! running     none          state error
//! stopping    any           kill the container; state stopped
//! stopped     running       kill the container
//! none        any           delete the container and its slot
//! none        none          put the workspace into quarantine, unless it is parked
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use elevo_catalog::{Catalog, NodeId, Sandbox};
use elevo_core::{ErrorCode, SandboxId, SandboxState};
use elevo_sandbox::SandboxRuntime;
use elevo_sandbox::{Container, ContainerState};
use parking_lot::MutexGuard;

use crate::app::maintenance::cleanup::Cleanup;
use crate::app::resources::Resources;
use crate::app::sandboxes::containers::Containers;
use crate::app::sandboxes::reasons::Reason;
use crate::app::sandboxes::rows::sandboxes_on;
use crate::app::sandboxes::starts::Starts;
use crate::app::tenant_stores::TenantStores;
use crate::failure::Result;

/// Makes the catalog match the containers and workspaces after a start. Holds
/// the ids of the sandboxes that are not recovered yet.
pub(crate) struct Recovery {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    runtime: Arc<dyn SandboxRuntime>,
    stores: Arc<TenantStores>,
    cleanup: Arc<Cleanup>,
    containers: Arc<Containers>,
    starts: Arc<Starts>,
    /// Ids of sandboxes of the previous server process that were not compared
    /// with their containers yet.
    unrecovered: parking_lot::Mutex<HashSet<SandboxId>>,
}

impl Recovery {
    pub(crate) fn new(
        resources: &Resources,
        cleanup: &Arc<Cleanup>,
        containers: &Arc<Containers>,
        starts: &Arc<Starts>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            cleanup: cleanup.clone(),
            containers: containers.clone(),
            runtime: resources.runtime.clone(),
            starts: starts.clone(),
            stores: resources.stores.clone(),
            unrecovered: parking_lot::Mutex::default(),
        }
    }

    /// Recovers sandboxes and workspaces after a start. Succeeds even if the
    /// container engine does not respond: the server starts without it.
    pub(crate) async fn run(self: &Arc<Self>) -> Result<()> {
        let rows = sandboxes_on(&*self.catalog, self.node).await?;
        *self.unrecovered() = rows.into_iter().map(|row| row.id).collect();
        if let Err(failure) = self.recover_sandboxes().await {
            let cause = failure.summary();
            tracing::warn!(
                cause,
                "cannot recover sandboxes; a job retries until the container engine responds"
            );
        }
        let cleared = self.cleanup.run().await;
        tracing::info!(
            sandboxes = cleared.cleaned_sandboxes,
            workspaces = cleared.cleaned_workspaces,
            "recovery finished"
        );
        Ok(())
    }

    fn unrecovered(&self) -> MutexGuard<'_, HashSet<SandboxId>> {
        self.unrecovered.lock()
    }

    /// Compares the sandboxes of the previous server process with their
    /// containers. Fails if the container engine does not respond; a later call
    /// continues. Sandboxes that this process created are not included.
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
            match self.recover_by_id(&id, containers.get(id.as_str())).await {
                Err(failure) if failure.code == ErrorCode::RuntimeUnavailable => {
                    // This sandbox and the remaining ones stay in the set, so
                    // that the next call retries them.
                    return Err(failure);
                }
                Err(failure) => {
                    let cause = failure.summary();
                    tracing::error!(sandbox = %id, cause, "cannot recover a sandbox");
                }
                Ok(()) => {}
            }
            self.unrecovered().remove(&id);
        }
        Ok(())
    }

    async fn recover_by_id(&self, id: &SandboxId, container: Option<&Container>) -> Result<()> {
        // The ids are from the start of the server. If the engine did not
        // respond then, the row may have changed or been deleted since.
        match self.catalog.sandbox_of_any_tenant(id).await? {
            // The erasure of the tenant deletes this sandbox.
            Some(sandbox) if self.stores.is_closed(sandbox.tenant) => Ok(()),
            // It has moved to another node, which answers for it from then on.
            Some(sandbox) if sandbox.node != self.node => Ok(()),
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
        match sandbox.state {
            // No client knows the id of a sandbox in its first start: the
            // response with the id is sent when the sandbox runs.
            Starting if !sandbox.started_before => self.starts.give_up(sandbox).await,
            Starting => {
                let reason = "the server stopped while the sandbox was starting".to_owned();
                self.starts
                    .change(sandbox, &[Starting], Error, Some(reason.into()))
                    .await?;
            }
            Running if runs => {
                self.thaw(container).await;
                self.show_again(sandbox).await?;
            }
            Running => {
                let reason = match container {
                    Some(container) => self.containers.why_ended(&container.id).await?,
                    None => Reason::container_gone(),
                };
                self.starts
                    .change(sandbox, &[Running], Error, Some(reason))
                    .await?;
            }
            Stopping | Stopped => {
                if let Some(container) = container.filter(|_| runs) {
                    self.runtime.kill(&container.id).await?;
                }
                if sandbox.state == Stopping {
                    self.starts
                        .change(sandbox, &[Stopping], Stopped, None)
                        .await?;
                }
            }
            Error => {}
        }
        Ok(())
    }

    /// Makes the workspace of a running sandbox visible in its container, if it
    /// is a read-only workspace that follows snapshots there. A server that was
    /// killed while it started the sandbox may not have done this.
    async fn show_again(&self, sandbox: &Sandbox) -> Result<()> {
        let id = sandbox.workspace.clone();
        let shown = self.stores.with(sandbox.tenant, move |workspaces| {
            if workspaces.follows_in_containers(&id)? {
                let binding = workspaces.bind(&id)?;
                workspaces.show(binding)?;
            }
            Ok(())
        });
        shown.await
    }

    /// Thaws a frozen container: a server that was killed during a snapshot
    /// leaves its container frozen.
    async fn thaw(&self, container: Option<&Container>) {
        if let Some(container) = container
            && container.state == ContainerState::Frozen
            && let Err(error) = self.runtime.thaw(&container.id).await
        {
            let cause = crate::failure::chain(&error);
            tracing::error!(
                sandbox = container.sandbox,
                cause,
                "cannot thaw a container; its processes stay frozen"
            );
        }
    }
}
