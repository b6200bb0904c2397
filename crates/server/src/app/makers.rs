//! Tracks the sandboxes that are being started, and ends starts without a task.
//!
//! A row in state `starting` has a maker as long as its [`Making`] lives: a
//! task that panics, or a future that is dropped, drops it as well. A row
//! without a maker would count for limits until the next start of the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use elevo_catalog::{Sandbox, SandboxChange, SandboxQuery};
use elevo_core::{ErrorCode, SandboxState};

use crate::app::App;
use crate::clock;
use crate::failure::{Failure, Result};

/// The sandboxes that this process is starting, with the number of makers: the
/// next may enter before the last has left.
#[derive(Debug, Default)]
pub(crate) struct Makers(Mutex<HashMap<String, usize>>);

/// Marks a sandbox as being started until dropped.
#[derive(Debug)]
pub(crate) struct Making {
    makers: Arc<Makers>,
    id: String,
}

impl Makers {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a sandbox. Must be called before its row says `starting`.
    pub(crate) fn enter(self: &Arc<Self>, id: &str) -> Making {
        *self.lock().entry(id.to_owned()).or_default() += 1;
        Making {
            makers: self.clone(),
            id: id.to_owned(),
        }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let mut makers = self.makers.lock();
        if let Some(count) = makers.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                makers.remove(&self.id);
            }
        }
    }
}

impl App {
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
    pub(super) fn is_being_made(&self, id: &str) -> bool {
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
