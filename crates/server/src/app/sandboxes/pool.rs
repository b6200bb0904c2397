//! The sandboxes of warm pools that are ready, taken, or being created.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use elevo_catalog::secret::SandboxToken;
use tokio::sync::Notify;

use crate::app::sandboxes::spec::Spec;
use crate::config::WarmPool;

/// The warm sandboxes.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) warm: Vec<Warm>,
    /// All sandboxes that are or will be warm, and those that were taken and
    /// have no row yet: their ids, with the hashes of their tokens.
    pub(crate) known: HashMap<String, [u8; 32]>,
}

/// A warm sandbox.
#[derive(Debug)]
pub(crate) struct Warm {
    pub(crate) id: String,
    /// The configured pool that it was created for.
    pub(crate) setting: WarmPool,
    pub(crate) spec: Spec,
    /// The id of its image, even if the name now refers to another image.
    pub(crate) image: String,
    pub(crate) token_hash: [u8; 32],
}

/// A sandbox taken from a pool. It goes back unless it is used.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) pool: Arc<Pool>,
    pub(crate) warm: Option<Warm>,
    pub(crate) id: String,
    pub(crate) token_hash: [u8; 32],
}

impl Taken {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn token_hash(&self) -> [u8; 32] {
        self.token_hash
    }

    /// Removes the sandbox from the pool: it has a row from now on.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the token of a sandbox that is or will be warm.
    pub(crate) fn has_token(&self, id: &str, token: &SandboxToken) -> bool {
        let hash = self.lock().known.get(id).copied();
        hash.is_some_and(|hash| token.matches(&hash))
    }

    /// Returns the ids of the sandboxes without a row.
    pub(crate) fn ids(&self) -> HashSet<String> {
        self.lock().known.keys().cloned().collect()
    }

    pub(crate) fn know(&self, id: &str, token_hash: [u8; 32]) {
        self.lock().known.insert(id.into(), token_hash);
    }

    pub(crate) fn forget(&self, id: &str) {
        self.lock().known.remove(id);
    }

    /// Removes and returns the warm sandboxes that are not wanted.
    pub(crate) fn weed(&self, mut is_wanted: impl FnMut(&Warm) -> bool) -> Vec<Warm> {
        let mut state = self.lock();
        let all = std::mem::take(&mut state.warm);
        let (stay, go) = all.into_iter().partition(|warm| is_wanted(warm));
        state.warm = stay;
        go
    }
}
