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
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use elevo_catalog::{Sandbox, SandboxQuery};
use elevo_core::{ErrorCode, SandboxState};
use elevo_sandbox::{Container, ContainerState};

use crate::app::App;
use crate::app::lost::GONE;
use crate::failure::Result;

impl App {
    /// Reconciles everything after a start.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<()> {
        self.close_erased().await?;
        self.resume_restored().await;
        // A catalog on one machine has one server, so all others are dead.
        if let Err(error) = self.catalog.release_all_but(&[&self.process]).await {
            // Only retries of those requests need this; a later run repeats it.
            let cause = crate::failure::chain(&error);
            tracing::warn!(cause, "cannot release interrupted requests yet");
            self.unreleased.store(true, Ordering::Relaxed);
        }
        let rows = self.all_sandboxes().await?;
        *self.unrecovered() = rows.into_iter().map(|row| row.id).collect();
        if let Err(failure) = self.recover_sandboxes().await {
            let cause = failure.summary();
            tracing::warn!(cause, "sandboxes are recovered once the engine responds");
        }
        self.adopt_kept().await;
        let cleared = self.clear_away().await;
        tracing::info!(
            sandboxes = cleared.cleaned_sandboxes,
            workspaces = cleared.cleaned_workspaces,
            "recovered"
        );
        Ok(())
    }

    /// Releases the requests of earlier servers, if that failed at the start.
    pub(crate) async fn release_again(&self) -> Result<()> {
        if self.unreleased.load(Ordering::Relaxed) {
            self.catalog.release_all_but(&[&self.process]).await?;
            self.unreleased.store(false, Ordering::Relaxed);
        }
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
            Some(sandbox) if self.homes.is_closed(sandbox.tenant) => Ok(()),
            Some(sandbox) => self.recover_one(&sandbox, container).await,
            None => Ok(()),
        }
    }

    pub(super) async fn all_sandboxes(&self) -> Result<Vec<Sandbox>> {
        let mut query = SandboxQuery::default();
        let mut all = Vec::new();
        loop {
            let page = self.catalog.sandboxes(&query).await?;
            query.after = page.items.last().map(Sandbox::position);
            let is_last = page.items.is_empty();
            all.extend(page.items);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn recover_one(&self, sandbox: &Sandbox, container: Option<&Container>) -> Result<()> {
        use SandboxState::{Error, Running, Starting, Stopped, Stopping};
        if sandbox.removing {
            return self.remove(sandbox).await;
        }
        let runs = container.is_some_and(|container| {
            container.state != ContainerState::Exited && container.state != ContainerState::Created
        });
        let id = &sandbox.id;
        match sandbox.state {
            // Its id was never returned: a client gets it only once the sandbox
            // runs.
            Starting if sandbox.reason.is_none() => self.give_up(id).await,
            Starting => {
                let reason = Some("the server stopped while the sandbox was starting".into());
                self.change(id, &[Starting], Error, reason).await?;
            }
            Running if runs => {
                self.thaw(container).await;
                self.show_again(sandbox).await?;
            }
            Running => {
                let reason = match container {
                    Some(container) => self.why_ended(&container.id).await?,
                    None => GONE.to_owned(),
                };
                self.change(id, &[Running], Error, Some(reason)).await?;
            }
            Stopping | Stopped => {
                if let Some(container) = container.filter(|_| runs) {
                    self.runtime.kill(&container.id).await?;
                }
                if sandbox.state == Stopping {
                    self.change(id, &[Stopping], Stopped, None).await?;
                }
            }
            Error => {}
        }
        Ok(())
    }

    /// A server that was killed while it attached a workspace to a container
    /// may not have shown it there.
    async fn show_again(&self, sandbox: &Sandbox) -> Result<()> {
        let id = super::parts::workspace_id(&sandbox.workspace)?;
        let shown = self.homes.with(sandbox.tenant, move |workspaces| {
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

    /// Deletes networks and rules if no sandbox needs them again: a server that
    /// is gone for good leaves nothing on its machine.
    pub(crate) async fn leave_engine(&self) -> Result<()> {
        self.drain_pools().await;
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
}

/// The setting by which earlier servers recorded that a workspace outlives its
/// sandbox.
pub(crate) fn kept_name(workspace: &str) -> String {
    format!("kept-workspace:{workspace}")
}
