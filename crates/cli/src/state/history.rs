//! The snapshots that led to one, newest first.

use std::collections::{BTreeMap, HashSet};

use elevo_core::Timestamp;
use elevo_engine::Repository;
use elevo_objects::{Snapshot, SnapshotId};

use crate::session::wait;

/// Walks from a snapshot to all it was made from, by the time they say they
/// were made.
///
/// As long as each snapshot has one parent, nothing is kept in memory; beyond
/// the first merge, the ids of those seen are.
pub(super) struct History {
    repository: Repository,
    open: BTreeMap<(Timestamp, SnapshotId), Snapshot>,
    seen: Option<HashSet<SnapshotId>>,
    /// Parents that are named but not stored.
    pub(super) missing: u64,
}

impl History {
    pub(super) fn new(repository: &Repository, id: SnapshotId, snapshot: Snapshot) -> Self {
        Self {
            repository: repository.clone(),
            open: BTreeMap::from([((snapshot.created, id), snapshot)]),
            seen: None,
            missing: 0,
        }
    }

    pub(super) fn next(&mut self) -> anyhow::Result<Option<(SnapshotId, Snapshot)>> {
        let Some(((_, id), snapshot)) = self.open.pop_last() else {
            return Ok(None);
        };
        if snapshot.parents.len() > 1 {
            self.seen.get_or_insert_default();
        }
        let mut parents = snapshot.parents.clone();
        if let Some(seen) = &mut self.seen {
            parents.retain(|parent| seen.insert(*parent));
        }
        let store = self.repository.store();
        let found = wait(store.snapshots(self.repository.tenant(), &parents))?;
        for (id, found) in parents.into_iter().zip(found) {
            match found {
                Some(parent) => {
                    self.open.insert((parent.created, id), parent);
                }
                None => self.missing += 1,
            }
        }
        Ok(Some((id, snapshot)))
    }
}
