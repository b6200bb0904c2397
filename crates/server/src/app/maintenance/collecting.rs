//! The running collection, and the lock that keeps collections, backups and
//! erasures apart.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use elevo_api as api;
use elevo_core::Timestamp;
use elevo_engine::{Depth, GcProgress};

use crate::platform::clock;

/// The running collection: one at a time.
#[derive(Debug, Default)]
pub(crate) struct Collecting {
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    now: Mutex<Option<Running>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) started: Timestamp,
    pub(crate) how: How,
    /// Counters of the finished tenants, and of the current tenant once its
    /// versions are dropped.
    pub(crate) tenants: Vec<Arc<GcProgress>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) depth: Depth,
    pub(crate) dry_run: bool,
}

impl How {
    pub(crate) const fn is_full(self) -> bool {
        matches!(self.depth, Depth::Full) || self.dry_run
    }
}

impl Collecting {
    /// Waits for the running collection, backup or erasure, and keeps others
    /// from starting until the guard is dropped.
    pub(crate) async fn pause(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.turn.clone().lock_owned().await
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the counters of the next tenant.
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
