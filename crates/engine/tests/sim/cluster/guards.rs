//! The snapshots that a process holds, and its commits under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use elevo_objects::SnapshotId;

#[derive(Clone, Default)]
pub struct Guards(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Number of holders of each snapshot.
    held: BTreeMap<SnapshotId, usize>,
    /// Number of the last commit.
    last: u64,
    /// Commits under way, by number.
    commits: BTreeSet<u64>,
    /// While a collection is open: the snapshots that were held at any time
    /// since this process heard of it. The value says whether one was held by
    /// other means than by the commit that made it.
    ever: Option<BTreeMap<SnapshotId, bool>>,
}

impl Guards {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }

    /// Holds snapshots. Their records must be read after this.
    pub fn hold(&self, snapshots: &[SnapshotId]) -> Holding {
        self.add(snapshots, true)
    }

    /// Holds the snapshots that a commit is about to make.
    pub fn hold_new(&self, snapshots: &[SnapshotId]) -> Holding {
        self.add(snapshots, false)
    }

    fn add(&self, snapshots: &[SnapshotId], is_read: bool) -> Holding {
        let mut state = self.lock();
        for id in snapshots {
            *state.held.entry(*id).or_default() += 1;
            if let Some(ever) = &mut state.ever {
                *ever.entry(*id).or_default() |= is_read;
            }
        }
        Holding {
            guards: self.clone(),
            snapshots: snapshots.to_vec(),
        }
    }

    /// Registers a commit.
    pub fn commit(&self) -> Committing {
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state.commits.insert(number);
        Committing {
            guards: self.clone(),
            number,
        }
    }

    /// From now on, remembers all snapshots that are held. Returns the number
    /// of the last commit before.
    pub fn open(&self) -> u64 {
        let mut state = self.lock();
        let held = state.held.keys().map(|id| (*id, true)).collect();
        state.ever = Some(held);
        state.last
    }

    /// Whether all commits up to this number have ended.
    pub fn are_over(&self, last: u64) -> bool {
        self.lock().commits.range(..=last).next().is_none()
    }

    /// The snapshots that are held now.
    pub fn held(&self) -> Vec<SnapshotId> {
        self.lock().held.keys().copied().collect()
    }

    /// The snapshots that were held at any time since [`open`](Self::open).
    pub fn ever(&self) -> Vec<SnapshotId> {
        let state = self.lock();
        match &state.ever {
            Some(ever) => ever.keys().copied().collect(),
            None => state.held.keys().copied().collect(),
        }
    }

    /// Those of [`ever`](Self::ever) that were not only held by their commits.
    pub fn arrived(&self) -> Vec<SnapshotId> {
        let state = self.lock();
        let ever = state.ever.iter().flatten();
        let read = ever.filter(|(_, is_read)| **is_read);
        read.map(|(id, _)| *id).collect()
    }

    /// Stops remembering.
    pub fn close(&self) {
        self.lock().ever = None;
    }
}

/// A hold on snapshots, until dropped.
pub struct Holding {
    guards: Guards,
    snapshots: Vec<SnapshotId>,
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut state = self.guards.lock();
        for id in &self.snapshots {
            if let Some(count) = state.held.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    state.held.remove(id);
                }
            }
        }
    }
}

/// A commit under way, until dropped.
pub struct Committing {
    guards: Guards,
    number: u64,
}

impl Drop for Committing {
    fn drop(&mut self) {
        self.guards.lock().commits.remove(&self.number);
    }
}
