//! The snapshots that this process holds, and its commits under way. Kept in
//! memory: a collection asks every process for them (see `node.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use elevo_objects::SnapshotId;
use parking_lot::Mutex;

/// The guards of all tenants of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guards(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    /// Number of the last commit of any tenant.
    last: u64,
    tenants: HashMap<i32, Tenant>,
}

#[derive(Debug, Default)]
struct Tenant {
    /// Number of holders of each snapshot.
    held: BTreeMap<SnapshotId, usize>,
    /// Commits under way, by number.
    commits: BTreeSet<u64>,
    /// While a collection is open: the snapshots that were held at any time since
    /// this process heard of it. The value says whether one was held by other
    /// means than by the commit that made it.
    ever: Option<BTreeMap<SnapshotId, bool>>,
}

impl Tenant {
    fn hold(&mut self, snapshots: &[SnapshotId], is_read: bool) {
        for id in snapshots {
            *self.held.entry(*id).or_default() += 1;
            if let Some(ever) = &mut self.ever {
                *ever.entry(*id).or_default() |= is_read;
            }
        }
    }

    fn is_unused(&self) -> bool {
        self.held.is_empty() && self.commits.is_empty() && self.ever.is_none()
    }
}

impl Guards {
    fn with<T>(&self, tenant: i32, action: impl FnOnce(&mut Tenant) -> T) -> T {
        let tenants = &mut self.0.lock().tenants;
        let found = tenants.entry(tenant).or_default();
        let result = action(found);
        if found.is_unused() {
            tenants.remove(&tenant);
        }
        result
    }

    /// Holds snapshots. Their records must be read after this.
    pub(crate) fn hold(&self, tenant: i32, snapshots: &[SnapshotId]) -> Holding {
        self.with(tenant, |tenant| tenant.hold(snapshots, true));
        self.holding(tenant, snapshots)
    }

    /// Holds the snapshots that a commit is about to make.
    pub(crate) fn hold_new(&self, tenant: i32, snapshots: &[SnapshotId]) -> Holding {
        self.with(tenant, |tenant| tenant.hold(snapshots, false));
        self.holding(tenant, snapshots)
    }

    fn holding(&self, tenant: i32, snapshots: &[SnapshotId]) -> Holding {
        Holding {
            guards: self.clone(),
            tenant,
            snapshots: snapshots.to_vec(),
        }
    }

    /// Registers a commit.
    pub(crate) fn commit(&self, tenant: i32) -> Committing {
        let mut all = self.0.lock();
        all.last += 1;
        let number = all.last;
        let commits = &mut all.tenants.entry(tenant).or_default().commits;
        commits.insert(number);
        drop(all);
        Committing {
            guards: self.clone(),
            tenant,
            number,
        }
    }

    /// From now on, remembers all snapshots that are held. Returns the number of
    /// the last commit before.
    pub(crate) fn open(&self, tenant: i32) -> u64 {
        let mut all = self.0.lock();
        let last = all.last;
        let found = all.tenants.entry(tenant).or_default();
        // A later collection of the same tenant forgets what the earlier one
        // remembered.
        found.ever = Some(found.held.keys().map(|id| (*id, true)).collect());
        last
    }

    /// Whether all commits up to this number have ended.
    pub(crate) fn are_over(&self, tenant: i32, last: u64) -> bool {
        self.with(tenant, |tenant| {
            tenant.commits.range(..=last).next().is_none()
        })
    }

    /// The snapshots that were held at any time since [`open`](Self::open).
    pub(crate) fn ever(&self, tenant: i32) -> Vec<SnapshotId> {
        self.with(tenant, |tenant| match &tenant.ever {
            #[cfg(test)]
            _ if crate::mixed::forgets() => tenant.held.keys().copied().collect(),
            Some(ever) => ever.keys().copied().collect(),
            None => tenant.held.keys().copied().collect(),
        })
    }

    /// Those of [`ever`](Self::ever) that were not only held by their commits.
    pub(crate) fn arrived(&self, tenant: i32) -> Vec<SnapshotId> {
        self.with(tenant, |tenant| {
            let ever = tenant.ever.iter().flatten();
            ever.filter(|(_, is_read)| **is_read)
                .map(|(id, _)| *id)
                .collect()
        })
    }

    /// Stops remembering.
    pub(crate) fn close(&self, tenant: i32) {
        self.with(tenant, |tenant| tenant.ever = None);
    }
}

/// A hold on snapshots, until dropped.
#[derive(Debug)]
pub(crate) struct Holding {
    guards: Guards,
    tenant: i32,
    snapshots: Vec<SnapshotId>,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.guards.with(self.tenant, |tenant| {
            for id in &self.snapshots {
                if let Some(count) = tenant.held.get_mut(id) {
                    *count -= 1;
                    if *count == 0 {
                        tenant.held.remove(id);
                    }
                }
            }
        });
    }
}

/// A commit under way, until dropped.
#[derive(Debug)]
pub(crate) struct Committing {
    guards: Guards,
    tenant: i32,
    number: u64,
}

impl Drop for Committing {
    fn drop(&mut self) {
        let number = self.number;
        self.guards.with(self.tenant, |tenant| {
            tenant.commits.remove(&number);
        });
    }
}
