//! The progress of the running garbage collection, and the lock that only one
//! collection, backup or erasure holds at a time.

use std::sync::Arc;

use elevo_api as api;
use elevo_core::Timestamp;
use elevo_engine::{GcProgress, GcScope};
use parking_lot::{Mutex, MutexGuard};

use crate::platform::clock;

/// The progress of the running garbage collection, and the lock that only one
/// collection, backup or erasure holds at a time.
#[derive(Debug, Default)]
pub(crate) struct Collecting {
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    now: Mutex<Option<Running>>,
}

/// A running garbage collection.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) started: Timestamp,
    pub(crate) how: How,
    /// The counters of each tenant that the collection has reached. A tenant is
    /// added after the versions that its projects do not keep were dropped.
    pub(crate) tenants: Vec<Arc<GcProgress>>,
}

/// The options of a garbage collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) scope: GcScope,
    pub(crate) dry_run: bool,
}

impl How {
    /// Returns true if the collection marks all objects. A dry run always does.
    pub(crate) const fn is_full(self) -> bool {
        matches!(self.scope, GcScope::Full) || self.dry_run
    }
}

impl Collecting {
    /// Waits for the running collection, backup or erasure, and keeps others
    /// from starting until the guard is dropped.
    pub(crate) async fn pause(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.turn.clone().lock_owned().await
    }

    /// Locks the state of the running collection, which is `None` if no
    /// collection runs.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.now.lock()
    }

    /// Adds counters for the next tenant to the running collection, and returns
    /// them.
    pub(crate) fn next(&self) -> Arc<GcProgress> {
        let progress = Arc::new(GcProgress::default());
        if let Some(running) = &mut *self.lock() {
            running.tenants.push(progress.clone());
        }
        progress
    }
}

impl Running {
    pub(crate) fn out(&self) -> api::GcCurrent {
        let sum = |count: fn(&GcProgress) -> u64| self.tenants.iter().map(|it| count(it)).sum();
        let phase = match self.tenants.last() {
            None => api::GcPhase::Dropping,
            Some(one) if one.waiting() > 0 => api::GcPhase::Waiting,
            Some(one) if one.seen() > 0 => api::GcPhase::Removing,
            Some(_) => api::GcPhase::Marking,
        };
        api::GcCurrent {
            started_at: clock::text(self.started),
            dry_run: self.how.dry_run,
            full: self.how.is_full(),
            phase,
            writers: self.tenants.last().map_or(0, |one| one.waiting()),
            marked: sum(GcProgress::marked),
            seen: sum(GcProgress::seen),
            removed: sum(GcProgress::removed),
        }
    }
}
