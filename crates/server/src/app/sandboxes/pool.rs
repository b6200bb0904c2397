//! The state of the warm pools: sandboxes that are ready, being created, or taken
//! by a request that has not added a row yet.

use elevo_core::SandboxId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use elevo_catalog::secret::SandboxToken;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::app::sandboxes::spec::Spec;
use crate::config::WarmPool;

/// The sandboxes of all warm pools, and a notification that they changed.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Notify,
}

/// The sandboxes of all warm pools.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Sandboxes that are ready to be taken.
    pub(crate) warm: Vec<Warm>,
    /// Sandboxes without a row that must not be cleaned up: those that are ready
    /// or being created, and those that were taken. Their ids, with the hashes of
    /// their tokens.
    pub(crate) known: HashMap<SandboxId, [u8; 32]>,
}

/// A sandbox of a warm pool that is ready.
#[derive(Debug)]
pub(crate) struct Warm {
    pub(crate) id: SandboxId,
    /// The warm pool in the settings that this sandbox was created for.
    pub(crate) setting: WarmPool,
    pub(crate) spec: Spec,
    /// The id of the image that the container was created from. The name of the
    /// image may refer to another image by now.
    pub(crate) image: String,
    pub(crate) token_hash: [u8; 32],
}

/// A sandbox that was taken from a pool. It returns to the pool on drop, unless
/// [`used`](Self::used) was called.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) pool: Arc<Pool>,
    pub(crate) warm: Option<Warm>,
    pub(crate) id: SandboxId,
    pub(crate) token_hash: [u8; 32],
}

impl Taken {
    pub(crate) fn id(&self) -> &SandboxId {
        &self.id
    }

    pub(crate) fn token_hash(&self) -> [u8; 32] {
        self.token_hash
    }

    /// Removes the sandbox from the pool for good, because it has a row now.
    pub(crate) fn used(&mut self) {
        self.warm = None;
        self.pool.forget(&self.id);
        self.pool.changed.notify_one();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(warm) = self.warm.take() {
            self.pool.lock().warm.push(warm);
        }
    }
}

impl Pool {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns true if this is the token of a sandbox in the pool that has no row
    /// yet.
    pub(crate) fn has_token(&self, id: &str, token: &SandboxToken) -> bool {
        let hash = self.lock().known.get(id).copied();
        hash.is_some_and(|hash| token.matches(&hash))
    }

    /// Returns the ids of the sandboxes in the pool that have no row yet.
    pub(crate) fn ids(&self) -> HashSet<SandboxId> {
        self.lock().known.keys().cloned().collect()
    }

    /// Registers a sandbox, before its container is created.
    pub(crate) fn know(&self, id: &SandboxId, token_hash: [u8; 32]) {
        self.lock().known.insert(id.clone(), token_hash);
    }

    /// Removes the registration of a sandbox that has a row or was deleted.
    pub(crate) fn forget(&self, id: &SandboxId) {
        self.lock().known.remove(id);
    }

    /// Removes and returns the ready sandboxes for which `is_wanted` is false.
    pub(crate) fn weed(&self, mut is_wanted: impl FnMut(&Warm) -> bool) -> Vec<Warm> {
        let mut state = self.lock();
        let all = std::mem::take(&mut state.warm);
        let (stay, go) = all.into_iter().partition(|warm| is_wanted(warm));
        state.warm = stay;
        go
    }
}
