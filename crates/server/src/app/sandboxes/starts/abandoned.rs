//! Ends starts whose task no longer exists, for example because it panicked.

use elevo_catalog::{Sandbox, SandboxChange, SandboxQuery};
use elevo_core::{ErrorCode, SandboxId, SandboxState};

use crate::app::sandboxes::starts::Starts;
use crate::failure::{Failure, Result};
use crate::platform::clock;

impl Starts {
    /// Ends the start of every sandbox of this node in the state `starting` that no
    /// task of this process is starting.
    pub(crate) async fn end_abandoned_starts(&self) -> Result<()> {
        let query = SandboxQuery {
            state: Some(SandboxState::Starting),
            removing: Some(false),
            node: Some(self.node),
            ..SandboxQuery::default()
        };
        // The rows must be read before the set of running starts: a task enters
        // the set before it writes the state `starting`.
        for sandbox in self.catalog.sandboxes(&query).await?.items {
            if self.is_being_made(&sandbox.id) {
                continue;
            }
            match self.end_start(&sandbox).await {
                Ok(()) => {}
                // The task finished the start after the rows were read.
                Err(failure)
                    if matches!(
                        failure.code,
                        ErrorCode::SandboxWrongState
                            | ErrorCode::SandboxNotFound
                            | ErrorCode::NotFound
                    ) => {}
                Err(failure) => {
                    let cause = failure.summary();
                    tracing::error!(
                        sandbox = %sandbox.id,
                        cause,
                        "cannot end the interrupted start of a sandbox"
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns true if a task of this process is starting the sandbox.
    pub(crate) fn is_being_made(&self, id: &SandboxId) -> bool {
        self.makers.lock().contains_key(id)
    }

    /// Ends a start: rolls back a new sandbox, and sets the state of an older one
    /// to error. Fails if the sandbox is no longer in the state `starting`.
    pub(crate) async fn end_start(&self, sandbox: &Sandbox) -> Result<()> {
        let starting = [SandboxState::Starting];
        if sandbox.started_before {
            let reason = "the start of the sandbox was interrupted; `start` retries it".to_owned();
            let changed = self.change(sandbox, &starting, SandboxState::Error, Some(reason.into()));
            return changed.await.map(drop);
        }
        // No client knows the id of a sandbox in its first start.
        let mark = SandboxChange {
            from: Some(starting.to_vec()),
            generation: Some(sandbox.generation),
            removing: Some(true),
            ..SandboxChange::default()
        };
        let marked = self
            .catalog
            .change_sandbox(sandbox.tenant, &sandbox.id, &mark, clock::now());
        let marked = marked.await.map_err(Failure::from)?;
        tracing::warn!(
            sandbox = %sandbox.id,
            "a new sandbox is rolled back, because no task is starting it"
        );
        self.remove(&marked).await
    }
}
