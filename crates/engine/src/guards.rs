//! Who is at work in a store, for those who collect garbage beside them. The
//! bookkeeping that every store needs for [`Store::writing`], [`Store::hold`]
//! and [`Store::collection`].
//!
//! [`Store::writing`]: crate::Store::writing
//! [`Store::hold`]: crate::Store::hold
//! [`Store::collection`]: crate::Store::collection

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use elevo_core::TenantId;
use elevo_objects::SnapshotId;

/// Keeps something from being collected until it is dropped.
pub struct Guard(#[expect(dead_code, reason = "what counts is when it is dropped")] Box<Held>);

type Held = dyn Any + Send + Sync;

impl Guard {
    /// Guards for as long as `held` lives.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").finish()
    }
}

/// What a collection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// None is under way.
    Idle,
    /// It looks for what is needed: snapshots that somebody comes for are too.
    Marking,
    /// It knows what is needed, and removes the rest.
    Sweeping,
}

/// All who are at work.
#[derive(Clone, Debug, Default)]
pub struct Guards(Arc<Mutex<HashMap<TenantId, Tenant>>>);

#[derive(Debug)]
struct Tenant {
    phase: Phase,
    next: u64,
    /// Who began up to here did so before the collection.
    older: u64,
    /// Those who put objects ahead of a commit, by when they began.
    writers: BTreeSet<u64>,
    /// Snapshots, and by how many they are held; in order, so that a
    /// collection walks them in the same order in every run.
    held: BTreeMap<SnapshotId, usize>,
    /// Snapshots that the collection has not heard of.
    arrived: Vec<SnapshotId>,
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            phase: Phase::Idle,
            next: 0,
            older: 0,
            writers: BTreeSet::new(),
            held: BTreeMap::new(),
            arrived: Vec::new(),
        }
    }
}

impl Guards {
    fn with<T>(&self, tenant: TenantId, action: impl FnOnce(&mut Tenant) -> T) -> T {
        action(self.lock().entry(tenant).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, Tenant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets tenants that nobody works for.
    fn release(&self, tenant: TenantId, action: impl FnOnce(&mut Tenant)) {
        let mut tenants = self.lock();
        if let Some(found) = tenants.get_mut(&tenant) {
            action(found);
            if found.phase == Phase::Idle && found.writers.is_empty() && found.held.is_empty() {
                tenants.remove(&tenant);
            }
        }
    }

    /// Somebody who writes.
    pub fn writing(&self, tenant: TenantId) -> Writing {
        let began = self.with(tenant, |tenant| {
            // Numbers begin anew when nobody is left, and nobody compares then.
            tenant.next += 1;
            tenant.writers.insert(tenant.next);
            tenant.next
        });
        Writing {
            guards: self.clone(),
            tenant,
            began,
        }
    }

    /// Somebody who needs snapshots, and what a collection was at when they
    /// came: one that is sweeping may be about to remove them.
    pub fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> (Holding, Phase) {
        let phase = self.with(tenant, |tenant| {
            for id in snapshots {
                *tenant.held.entry(*id).or_default() += 1;
            }
            if tenant.phase == Phase::Marking {
                tenant.arrived.extend(snapshots);
            }
            tenant.phase
        });
        (self.holding(tenant, snapshots), phase)
    }

    /// Holds snapshots that were committed; to be called before the guard of
    /// whoever did it is dropped. They are kept. But if somebody is writing who
    /// began before the collection did, they may need what was put before it
    /// began, and is not kept: then they have to be walked.
    pub fn committed(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> Holding {
        self.with(tenant, |tenant| {
            for id in snapshots {
                *tenant.held.entry(*id).or_default() += 1;
            }
            let mut older = tenant.writers.range(..=tenant.older);
            if tenant.phase == Phase::Marking && older.next().is_some() {
                tenant.arrived.extend(snapshots);
            }
        });
        self.holding(tenant, snapshots)
    }

    fn holding(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> Holding {
        Holding {
            guards: self.clone(),
            tenant,
            snapshots: snapshots.to_vec(),
        }
    }

    /// Begins a collection; `None` if one is under way.
    pub fn begin(&self, tenant: TenantId) -> Option<Collecting> {
        self.with(tenant, |tenant| {
            if tenant.phase != Phase::Idle {
                return None;
            }
            (tenant.phase, tenant.older) = (Phase::Marking, tenant.next);
            tenant.arrived = tenant.held.keys().copied().collect();
            Some(tenant.next)
        })
        .map(|began| Collecting {
            guards: self.clone(),
            tenant,
            began,
        })
    }
}

/// Somebody who writes, until dropped.
#[derive(Debug)]
pub struct Writing {
    guards: Guards,
    tenant: TenantId,
    began: u64,
}

impl Drop for Writing {
    fn drop(&mut self) {
        let began = self.began;
        self.guards.release(self.tenant, |tenant| {
            tenant.writers.remove(&began);
        });
    }
}

/// Somebody who needs snapshots, until dropped.
#[derive(Debug)]
pub struct Holding {
    guards: Guards,
    tenant: TenantId,
    snapshots: Vec<SnapshotId>,
}

impl Drop for Holding {
    fn drop(&mut self) {
        let snapshots = std::mem::take(&mut self.snapshots);
        self.guards.release(self.tenant, |tenant| {
            for id in snapshots {
                if let Some(count) = tenant.held.get_mut(&id) {
                    *count -= 1;
                    if *count == 0 {
                        tenant.held.remove(&id);
                    }
                }
            }
        });
    }
}

/// A collection under way, until dropped.
#[derive(Debug)]
pub struct Collecting {
    guards: Guards,
    tenant: TenantId,
    began: u64,
}

impl Collecting {
    /// How many are still writing who began before this did.
    pub fn older_writers(&self) -> usize {
        let began = self.began;
        self.guards
            .with(self.tenant, |tenant| tenant.writers.range(..=began).count())
    }

    /// Snapshots that are held and were not told before.
    pub fn arrivals(&self) -> Vec<SnapshotId> {
        self.guards
            .with(self.tenant, |tenant| std::mem::take(&mut tenant.arrived))
    }

    /// Ends marking, unless somebody came for a snapshot that is not known to be
    /// needed.
    pub fn close(&self, is_known: impl Fn(&SnapshotId) -> bool) -> bool {
        self.guards.with(self.tenant, |tenant| {
            tenant.arrived.retain(|id| !is_known(id));
            let is_all = tenant.arrived.is_empty();
            if is_all {
                tenant.phase = Phase::Sweeping;
            }
            is_all
        })
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        self.guards.release(self.tenant, |tenant| {
            tenant.phase = Phase::Idle;
            tenant.arrived = Vec::new();
        });
    }
}
