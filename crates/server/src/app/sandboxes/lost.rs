//! Detects sandboxes whose container has ended or whose workspace agent is lost.
//! Such a sandbox gets the state `error`, a reason and an event, because no
//! request stopped it.
//!
//! An agent may be disconnected for a short time; it is lost after
//! `AGENT_TIMEOUT`. Its container and processes keep running, and the sandbox
//! gets the state `running` as soon as the agent reconnects.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use elevo_agent_link::AgentLinks;
use elevo_catalog::Catalog;
use elevo_catalog::{NodeId, Sandbox};
use elevo_core::{SandboxId, SandboxState};
use elevo_sandbox::ContainerState;
use elevo_sandbox::SandboxRuntime;
use parking_lot::Mutex;

use crate::app::resources::Resources;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::sandboxes::reasons::{Reason, is_lost};
use crate::app::sandboxes::rows::{container_of, sandboxes_on};
use crate::app::sandboxes::starts::Starts;
use crate::config::Config;
use crate::failure::{Result, log_failure};
use crate::platform::clock;

/// The time at which the agent of each running container was first found
/// disconnected, by sandbox.
#[derive(Debug, Default)]
pub(crate) struct Missing(Mutex<HashMap<SandboxId, Instant>>);

impl Missing {
    fn since(&self, id: &SandboxId, now: Instant) -> Instant {
        let mut missing = self.0.lock();
        *missing.entry(id.clone()).or_insert(now)
    }

    fn forget(&self, id: &SandboxId) {
        let mut missing = self.0.lock();
        missing.remove(id);
    }
}

/// Detects sandboxes whose container has ended or whose agent is lost, and
/// updates their rows.
pub(crate) struct LostSandboxes {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    config: Arc<Config>,
    links: AgentLinks,
    locks: Arc<SandboxLocks>,
    runtime: Arc<dyn SandboxRuntime>,
    starts: Arc<Starts>,
    missing: Missing,
}

impl LostSandboxes {
    pub(crate) fn new(resources: &Resources, starts: &Arc<Starts>) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            config: resources.config.clone(),
            links: resources.links.clone(),
            locks: resources.locks.clone(),
            runtime: resources.runtime.clone(),
            starts: starts.clone(),
            missing: Missing::default(),
        }
    }

    /// Compares the row of a sandbox with its container and its agent, and
    /// updates the row.
    pub(crate) async fn look_after(&self, id: &SandboxId) -> Result<()> {
        let _held = self.locks.hold(id).await;
        let found = self.catalog.sandbox_of_any_tenant(id).await?;
        let Some(sandbox) = found.filter(|sandbox| !sandbox.removing) else {
            self.missing.forget(id);
            return Ok(());
        };
        let is_lost = is_lost(&sandbox);
        match (sandbox.state, self.links.get(id).is_some()) {
            (SandboxState::Running, false) => self.look_at_container(&sandbox).await,
            (SandboxState::Error, true) if is_lost => {
                self.missing.forget(id);
                let from = [SandboxState::Error];
                self.starts
                    .change(&sandbox, &from, SandboxState::Running, None)
                    .await?;
                Ok(())
            }
            _ => {
                self.missing.forget(id);
                Ok(())
            }
        }
    }

    /// Checks the container of a running sandbox whose agent is disconnected.
    /// Sets the state `error` if the container has ended or the agent is lost.
    async fn look_at_container(&self, sandbox: &Sandbox) -> Result<()> {
        let Some(container) = container_of(sandbox) else {
            return Ok(());
        };
        let status = self.runtime.status(&container).await?;
        let reason = match status {
            None => Reason::container_gone(),
            Some(status) => match status.state {
                ContainerState::Exited => Reason::container_ended(&status),
                // A snapshot has frozen the agent as well, so it cannot respond.
                ContainerState::Frozen => {
                    self.missing.forget(&sandbox.id);
                    return Ok(());
                }
                _ => {
                    let now = clock::instant();
                    let since = self.missing.since(&sandbox.id, now);
                    if now.duration_since(since) < self.config.limits.agent_timeout {
                        return Ok(());
                    }
                    Reason::agent_lost()
                }
            },
        };
        self.missing.forget(&sandbox.id);
        tracing::warn!(sandbox = %sandbox.id, reason = reason.text, "a sandbox has failed");
        let from = [SandboxState::Running];
        self.starts
            .change(sandbox, &from, SandboxState::Error, Some(reason))
            .await?;
        Ok(())
    }

    /// Checks every running sandbox of this node without a connected agent, and
    /// every lost one whose agent has reconnected.
    pub(crate) async fn look_after_all(&self) -> Result<()> {
        for sandbox in sandboxes_on(&*self.catalog, self.node).await? {
            let has_agent = self.links.get(&sandbox.id).is_some();
            let is_odd = match sandbox.state {
                SandboxState::Running => !has_agent,
                _ => is_lost(&sandbox) && has_agent,
            };
            if is_odd {
                let looked = self.look_after(&sandbox.id).await;
                log_failure(
                    looked,
                    "sandbox",
                    &sandbox.id,
                    "cannot check the container and agent of a sandbox",
                );
            }
        }
        Ok(())
    }
}
