//! Tracks the sandboxes that this process is starting.
//!
//! The task that starts a sandbox holds a [`Making`], which is dropped even if the
//! task panics or is cancelled. So a row in the state `starting` without a
//! [`Making`] has no task, and a job rolls it back. Without that, the row would
//! count for limits until the next start of the server.

use elevo_core::SandboxId;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// The sandboxes that this process is starting, with the number of their tasks.
/// The number can be 2 for a moment, if a task begins before the last has ended.
#[derive(Debug, Default)]
pub(crate) struct Makers(Mutex<HashMap<SandboxId, usize>>);

/// Marks a sandbox as being started until dropped.
#[derive(Debug)]
pub(crate) struct Making {
    makers: Arc<Makers>,
    id: SandboxId,
}

impl Makers {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, usize>> {
        self.0.lock()
    }

    /// Marks a sandbox as being started. Must be called before its row gets the
    /// state `starting`.
    pub(crate) fn enter(self: &Arc<Self>, id: &SandboxId) -> Making {
        *self.lock().entry(id.clone()).or_default() += 1;
        Making {
            makers: self.clone(),
            id: id.clone(),
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
