//! Locks for comparing and moving refs.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use elevo_core::TenantId;
use elevo_engine::ReferenceUpdate;
use parking_lot::{Mutex, MutexGuard};

const LOCKS: usize = 64;

/// A lock for each ref, some of them shared. Commits that move different refs,
/// or none, run concurrently, and RocksDB syncs many of them at once.
#[derive(Debug)]
pub(crate) struct ReferenceLocks([Mutex<()>; LOCKS]);

impl Default for ReferenceLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl ReferenceLocks {
    /// Locks the refs of `updates` until the guards are dropped.
    pub(crate) fn lock(
        &self,
        tenant: TenantId,
        updates: &[ReferenceUpdate],
    ) -> Vec<MutexGuard<'_, ()>> {
        let mut places: Vec<_> = updates.iter().map(|update| place(tenant, update)).collect();
        // All callers use the same order, to avoid deadlocks.
        places.sort_unstable();
        places.dedup();
        let lock = |place: usize| self.0[place].lock();
        places.into_iter().map(lock).collect()
    }
}

fn place(tenant: TenantId, update: &ReferenceUpdate) -> usize {
    let mut hasher = DefaultHasher::new();
    (tenant, &update.name).hash(&mut hasher);
    hasher.finish() as usize % LOCKS
}
