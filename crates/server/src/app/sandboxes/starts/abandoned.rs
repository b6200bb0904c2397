//! Ends starts of sandboxes that no task carries out any more.

use elevo_catalog::{Sandbox, SandboxChange, SandboxQuery};
use elevo_core::{ErrorCode, SandboxState};

use crate::app::sandboxes::starts::Starts;
use crate::failure::{Failure, Result};
use crate::platform::clock;

impl Starts {
    /// Ends the start of every sandbox without a maker: a new sandbox is rolled
    /// back, an earlier one has failed.
    pub(crate) async fn end_abandoned_starts(&self) -> Result<()> {
        let query = SandboxQuery {
            state: Some(SandboxState::Starting),
            removing: Some(false),
            ..SandboxQuery::default()
        };
        // The rows are read first: a maker enters before it writes one.
        for sandbox in self.catalog.sandboxes(&query).await?.items {
            if self.is_being_made(&sandbox.id) {
                continue;
            }
            match self.end_start(&sandbox).await {
                Ok(()) => {}
                // Its maker ended the start after the rows were read.
                Err(failure)
                    if matches!(
                        failure.code,
                        ErrorCode::SandboxWrongState
                            | ErrorCode::SandboxNotFound
                            | ErrorCode::NotFound
                    ) => {}
                Err(failure) => {
                    let cause = failure.summary();
                    tracing::error!(sandbox = sandbox.id, cause, "cannot end an abandoned start");
                }
            }
        }
        Ok(())
    }

    /// Whether this process is starting a sandbox.
    pub(crate) fn is_being_made(&self, id: &str) -> bool {
        self.makers.lock().contains_key(id)
    }

    /// Ends a start, unless it has already ended.
    pub(crate) async fn end_start(&self, sandbox: &Sandbox) -> Result<()> {
        let starting = [SandboxState::Starting];
        if sandbox.reason.is_some() {
            let reason = Some("its start was abandoned; `start` tries again".into());
            let changed = self.change(&sandbox.id, &starting, SandboxState::Error, reason);
            return changed.await.map(drop);
        }
        let mark = SandboxChange {
            from: Some(starting.to_vec()),
            removing: Some(true),
            ..SandboxChange::default()
        };
        let marked = self
            .catalog
            .change_sandbox(&sandbox.id, &mark, clock::now());
        let marked = marked.await.map_err(Failure::from)?;
        tracing::warn!(sandbox = sandbox.id, "rolled back: no task was starting it");
        self.remove(&marked).await
    }
}
