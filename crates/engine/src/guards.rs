//! Records the writers and readers at work in a store, so that garbage can be
//! collected at the same time. Every store uses this for [`Store::writing`],
//! [`Store::hold`] and [`Store::collection`].
//!
//! [`Store::writing`]: crate::Store::writing
//! [`Store::hold`]: crate::Store::hold
//! [`Store::collection`]: crate::Store::collection

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use elevo_core::TenantId;
use elevo_objects::SnapshotId;
use parking_lot::Mutex;

/// Protects objects from being collected until it is dropped.
pub struct Guard(#[expect(dead_code, reason = "only its drop has an effect")] Box<Held>);

type Held = dyn Any + Send + Sync;

impl Guard {
    /// Creates a guard that lasts as long as `held` lives.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").finish()
    }
}

/// Names a [`Writer`]. A store gives each id once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(pub u64);

/// A registered writer, until dropped. Protects the objects that it has put or
/// found present from being collected; see [`Store::writing`].
///
/// [`Store::writing`]: crate::Store::writing
#[derive(Debug)]
pub struct Writer {
    id: WriterId,
    _guard: Guard,
}

impl Writer {
    /// Creates a writer that lasts as long as `held` lives.
    pub fn new(id: WriterId, held: impl Any + Send + Sync) -> Self {
        Self {
            id,
            _guard: Guard::new(held),
        }
    }

    /// Id by which commits name this writer.
    pub const fn id(&self) -> WriterId {
        self.id
    }
}

/// Phase of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No collection is running.
    Idle,
    /// The collection looks for needed objects. A snapshot held now is needed
    /// too.
    Marking,
    /// The collection knows which objects are needed and deletes the rest.
    Sweeping,
}

/// The guards of all tenants.
#[derive(Clone, Debug, Default)]
pub struct Guards(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    /// Sequence number of the last writer of any tenant.
    last: u64,
    tenants: HashMap<TenantId, Tenant>,
}

#[derive(Debug)]
struct Tenant {
    phase: Phase,
    /// Sequence number of the last writer that began before the collection.
    older: u64,
    /// Writers that put objects ahead of a commit, by sequence number.
    writers: BTreeSet<u64>,
    /// Number of holders of each snapshot; ordered, so that a collection walks
    /// the snapshots in the same order in every run.
    held: BTreeMap<SnapshotId, usize>,
    /// Held snapshots that the collection has not taken yet.
    arrived: Vec<SnapshotId>,
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            phase: Phase::Idle,
            older: 0,
            writers: BTreeSet::new(),
            held: BTreeMap::new(),
            arrived: Vec::new(),
        }
    }
}

impl Guards {
    fn with<T>(&self, tenant: TenantId, action: impl FnOnce(&mut Tenant) -> T) -> T {
        action(self.0.lock().tenants.entry(tenant).or_default())
    }

    /// Runs `action`, and removes the tenant if no guard of it is left.
    fn release(&self, tenant: TenantId, action: impl FnOnce(&mut Tenant)) {
        let tenants = &mut self.0.lock().tenants;
        if let Some(found) = tenants.get_mut(&tenant) {
            action(found);
            if found.phase == Phase::Idle && found.writers.is_empty() && found.held.is_empty() {
                tenants.remove(&tenant);
            }
        }
    }

    /// Registers a writer.
    pub fn writing(&self, tenant: TenantId) -> Writing {
        let mut all = self.0.lock();
        all.last += 1;
        let began = all.last;
        let writers = &mut all.tenants.entry(tenant).or_default().writers;
        writers.insert(began);
        drop(all);
        Writing {
            guards: self.clone(),
            tenant,
            began,
        }
    }

    /// Registers a commit as a writer; `None` if a writer that it names has
    /// ended, so that its objects may be gone.
    pub fn committing(&self, tenant: TenantId, after: &[WriterId]) -> Option<Writing> {
        let mut all = self.0.lock();
        let began = all.last + 1;
        let found = all.tenants.entry(tenant).or_default();
        if !after.iter().all(|WriterId(id)| found.writers.contains(id)) {
            return None;
        }
        found.writers.insert(began);
        all.last = began;
        drop(all);
        Some(Writing {
            guards: self.clone(),
            tenant,
            began,
        })
    }

    /// Registers a writer that puts objects ahead of a commit.
    pub fn writer(&self, tenant: TenantId) -> Writer {
        let writing = self.writing(tenant);
        Writer::new(WriterId(writing.began), writing)
    }

    /// Holds snapshots. Also returns the phase of the collection at that
    /// moment: a sweep may be about to delete them.
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

    /// Holds snapshots that were committed. Call this before the guard of the
    /// committing writer is dropped.
    ///
    /// The collection keeps the new snapshots themselves. But while a writer
    /// that began before the collection is active, a new snapshot may need
    /// objects that were put before the collection began and are not kept. The
    /// collection then has to walk the snapshot.
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

    /// Begins a collection; `None` if one is running.
    pub fn begin(&self, tenant: TenantId) -> Option<Collecting> {
        let mut all = self.0.lock();
        let began = all.last;
        let found = all.tenants.entry(tenant).or_default();
        if found.phase != Phase::Idle {
            return None;
        }
        (found.phase, found.older) = (Phase::Marking, began);
        found.arrived = found.held.keys().copied().collect();
        drop(all);
        Some(Collecting {
            guards: self.clone(),
            tenant,
            began,
        })
    }
}

/// A registered writer, until dropped.
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

/// A hold on snapshots, until dropped.
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

/// A running collection, until dropped.
#[derive(Debug)]
pub struct Collecting {
    guards: Guards,
    tenant: TenantId,
    began: u64,
}

impl Collecting {
    /// Number of active writers that began before this collection.
    pub fn older_writers(&self) -> usize {
        let began = self.began;
        self.guards
            .with(self.tenant, |tenant| tenant.writers.range(..=began).count())
    }

    /// Takes the held snapshots that were not returned before.
    pub fn arrivals(&self) -> Vec<SnapshotId> {
        self.guards
            .with(self.tenant, |tenant| std::mem::take(&mut tenant.arrived))
    }

    /// Ends marking and returns true, unless `is_known` returns false for a
    /// snapshot that [`Self::arrivals`] has not returned yet.
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
