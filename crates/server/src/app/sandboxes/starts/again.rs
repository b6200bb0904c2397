//! Starts sandboxes that were stopped or have failed.

use crate::app::sandboxes::reasons::{AGAIN, keeps_container};
use crate::app::sandboxes::spec::Spec;
use crate::app::sandboxes::starts::{Source, Starts};
use crate::failure::{Failure, Result};
use crate::platform::clock;
use elevo_catalog::secret::SandboxToken;
use elevo_catalog::{EventKind, Sandbox, SandboxChange};
use elevo_core::{SandboxId, SandboxState, TenantId};
use elevo_sandbox::ContainerId;

impl Starts {
    /// Starts a sandbox that was stopped or has failed: in its existing container
    /// if that container has run, else in a new one.
    pub(crate) async fn start_again(&self, tenant: TenantId, id: &SandboxId) -> Result<Sandbox> {
        let _held = self.locks.hold(id).await;
        let _making = self.makers.enter(id);
        let before = self.catalog.sandbox(tenant, id).await?;
        let before = before.ok_or_else(|| Failure::no_sandbox(id))?;
        let starting = SandboxChange {
            from: Some(vec![SandboxState::Stopped, SandboxState::Error]),
            to: Some(SandboxState::Starting),
            generation: Some(before.generation),
            reason: Some(Some(AGAIN.into())),
            started_before: Some(true),
            tells: vec![EventKind::SandboxStarting],
            ..SandboxChange::default()
        };
        let sandbox = self.change_as(&before, &starting).await?;
        let started = self.start_held(&sandbox, &before).await;
        if let Err(failure) = &started {
            let starting = [SandboxState::Starting];
            let cause = failure.summary();
            tracing::warn!(sandbox = %id, cause, "cannot start a sandbox");
            let reason = Some(failure.message.clone().into());
            self.change(&before, &starting, SandboxState::Error, reason)
                .await?;
        }
        started
    }

    /// Starts a sandbox whose lock the caller holds. `before` is the row of the
    /// sandbox before the start. It determines whether the existing container
    /// can be used.
    pub(super) async fn start_held(&self, sandbox: &Sandbox, before: &Sandbox) -> Result<Sandbox> {
        let _turn = self.containers.turn_to_create().await?;
        let spec = Spec::of(sandbox)?;
        let places = self.make_workspace(sandbox, &spec, Source::Made).await?;
        let container = ContainerId::new(sandbox.id.as_str())
            .ok_or_else(|| Failure::no_sandbox(&sandbox.id))?;
        let keep = keeps_container(before) && self.runtime.status(&container).await?.is_some();
        // Closes the connection of the previous run. If the old connection
        // stayed, the wait for the agent would end before the new agent has
        // connected.
        self.links.forget(&sandbox.id);
        if keep {
            // A lost sandbox may still have a running container.
            self.runtime.kill(&container).await?;
            if self.containers.has_slot(&sandbox.id) {
                self.containers.fill_slot(&sandbox.id, &places).await?;
            }
        } else {
            self.containers.remove_container(&sandbox.id).await?;
            let token = SandboxToken::from_random(clock::random());
            self.make_container(sandbox, &spec, &places, &token).await?;
        }
        self.start_container(sandbox, places).await
    }
}
