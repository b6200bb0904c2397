//! Tracks the sandboxes that are being started, and ends starts without a task.
//!
//! A row in state `starting` has a maker as long as its [`Making`] lives: a
//! task that panics, or a future that is dropped, drops it as well. A row
//! without a maker would count for limits until the next start of the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
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
