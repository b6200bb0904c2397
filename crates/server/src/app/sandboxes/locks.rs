//! A lock for each sandbox, so that only one operation at a time changes it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// The locks of sandboxes, by id. A lock is created on its first use.
#[derive(Debug, Default)]
pub(crate) struct SandboxLocks(Mutex<HashMap<String, Arc<Mutex<()>>>>);

impl SandboxLocks {
    /// Locks a sandbox against other changes until the guard is dropped.
    pub(crate) async fn hold(&self, id: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().await;
            if locks.len() > 1000 {
                // A lock whose only owner is this map is neither held nor
                // awaited.
                locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            }
            locks.entry(id.to_owned()).or_default().clone()
        };
        lock.lock_owned().await
    }
}
