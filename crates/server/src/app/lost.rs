//! Sandboxes whose container has died or whose agent is lost. Both are errors
//! with a reason and an event: no request stopped the sandbox.
//!
//! An agent may be away for a moment, for example while it reconnects; it is
//! lost after `AGENT_TIMEOUT`. Its container and processes stay, and the
//! sandbox runs again as soon as the agent is back.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use elevo_catalog::Sandbox;
use elevo_core::SandboxState;
use elevo_sandbox::{ContainerId, ContainerState, ContainerStatus};

use crate::app::App;
use crate::app::clearing::log_failure;
use crate::app::sandboxes::container_of;
use crate::clock;
use crate::failure::Result;

/// Beginning of the reason for a container that has died.
const ENDED: &str = "its container ended";
/// The reason for an agent that is lost.
const LOST: &str = "its agent does not answer; its processes may still run";
/// The reason for a container that was removed.
pub(super) const GONE: &str = "its container is gone; `start` makes a new one";

/// The times since which the agents of running containers have been missing.
#[derive(Debug, Default)]
pub(crate) struct Missing(Mutex<HashMap<String, Instant>>);

impl Missing {
    fn since(&self, id: &str, now: Instant) -> Instant {
        let mut missing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *missing.entry(id.to_owned()).or_insert(now)
    }

    fn forget(&self, id: &str) {
        let mut missing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        missing.remove(id);
    }
}

impl App {
    /// Updates the row of a sandbox to the state of its container and its
    /// agent.
    pub(crate) async fn look_after(&self, id: &str) -> Result<()> {
        let _held = self.hold(id).await;
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
                self.change(id, &from, SandboxState::Running, None).await?;
                Ok(())
            }
            _ => {
                self.missing.forget(id);
                Ok(())
            }
        }
    }

    /// Checks the container of a sandbox whose agent is missing.
    async fn look_at_container(&self, sandbox: &Sandbox) -> Result<()> {
        let Some(container) = container_of(sandbox) else {
            return Ok(());
        };
        let status = self.runtime.status(&container).await?;
        let reason = match status {
            None => GONE.to_owned(),
            Some(status) => match status.state {
                ContainerState::Exited => ended(&status),
                // A snapshot has frozen the processes.
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
                    LOST.to_owned()
                }
            },
        };
        self.missing.forget(&sandbox.id);
        tracing::warn!(sandbox = sandbox.id, reason, "a sandbox has failed");
        let from = [SandboxState::Running];
        self.change(&sandbox.id, &from, SandboxState::Error, Some(reason))
            .await?;
        Ok(())
    }

    /// Updates the row of every sandbox whose agent is missing, or has come
    /// back.
    pub(crate) async fn look_after_all(&self) -> Result<()> {
        for sandbox in self.all_sandboxes().await? {
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
                    "cannot check its container and agent",
                );
            }
        }
        Ok(())
    }

    /// Returns the reason for which a container ended, as far as the engine
    /// knows.
    pub(super) async fn why_ended(&self, container: &ContainerId) -> Result<String> {
        let status = self.runtime.status(container).await?;
        Ok(status.as_ref().map_or_else(|| GONE.to_owned(), ended))
    }
}

/// Whether a sandbox has failed only because its agent is lost.
fn is_lost(sandbox: &Sandbox) -> bool {
    sandbox.state == SandboxState::Error && sandbox.reason.as_deref() == Some(LOST)
}

/// Whether to start the container of a sandbox again: it has run, and has the
/// files that were written to its root. A container that failed to start may be
/// the cause of the failure.
pub(super) fn keeps_container(sandbox: &Sandbox) -> bool {
    let reason = sandbox.reason.as_deref().unwrap_or_default();
    match sandbox.state {
        SandboxState::Stopped => true,
        SandboxState::Error => reason == LOST || reason.starts_with(ENDED),
        _ => false,
    }
}

fn ended(status: &ContainerStatus) -> String {
    match (status.oom_killed, status.exit_code) {
        (true, _) => format!("{ENDED}: it used more memory than it may"),
        (false, Some(code)) => format!("{ENDED} with exit code {code}"),
        (false, None) => ENDED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_says_how_a_container_ended() {
        let status = |oom_killed, exit_code| ContainerStatus {
            state: ContainerState::Exited,
            pid: None,
            exit_code,
            oom_killed,
            error: None,
        };
        let found = ended(&status(true, Some(137)));
        assert_eq!(
            found,
            "its container ended: it used more memory than it may"
        );
        let found = ended(&status(false, Some(3)));
        assert_eq!(found, "its container ended with exit code 3");
        assert_eq!(ended(&status(false, None)), ENDED);
    }
}
