//! The ancestors of a snapshot, newest first.

use std::collections::{BTreeMap, HashSet};

use elevo_core::Timestamp;
use elevo_engine::Repository;
use elevo_objects::{Snapshot, SnapshotId};

use crate::local::wait::wait;

/// Walks from a snapshot to all its ancestors, ordered by their recorded time.
///
/// As long as each snapshot has one parent, nothing is kept in memory. From the
/// first merge on, the walk keeps the ids of the visited snapshots.
pub(crate) struct Ancestors {
    repository: Repository,
    open: BTreeMap<(Timestamp, SnapshotId), Snapshot>,
    seen: Option<HashSet<SnapshotId>>,
    /// Number of parents that are not stored.
    pub(crate) missing: u64,
}

impl Ancestors {
    pub(crate) fn new(repository: &Repository, id: SnapshotId, snapshot: Snapshot) -> Self {
        Self {
            repository: repository.clone(),
            open: BTreeMap::from([((snapshot.created, id), snapshot)]),
            seen: None,
            missing: 0,
        }
    }

    /// Leaves out a snapshot and all its ancestors.
    pub(crate) fn without(mut self, id: SnapshotId, snapshot: Snapshot) -> anyhow::Result<Self> {
        let mut others = Self::new(&self.repository, id, snapshot);
        let seen = self.seen.get_or_insert_default();
        while let Some((id, _)) = others.next()? {
            seen.insert(id);
        }
        self.open.retain(|(_, id), _| !seen.contains(id));
        Ok(self)
    }

    pub(crate) fn next(&mut self) -> anyhow::Result<Option<(SnapshotId, Snapshot)>> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use elevo_core::TenantId;
    use elevo_engine::{Commit, MemoryStore};
    use elevo_objects::Tree;

    use super::*;

    fn snapshot(message: &str, seconds: i64, parents: &[SnapshotId]) -> Snapshot {
        Snapshot {
            tree: Tree::EMPTY,
            times: None,
            parents: parents.to_vec(),
            author: String::new(),
            message: message.into(),
            created: Timestamp::new(seconds, 0).unwrap(),
            labels: BTreeMap::new(),
        }
    }

    fn repository() -> Repository {
        let store = Arc::new(MemoryStore::new());
        Repository::new(store, TenantId::LOCAL, 1 << 20)
    }

    fn add(repository: &Repository, snapshot: Snapshot) -> SnapshotId {
        let commit = Commit {
            snapshots: vec![snapshot],
            ..Commit::default()
        };
        let committed = wait(repository.store().commit(TenantId::LOCAL, commit));
        committed.unwrap().ids[0]
    }

    /// The messages in the order of a walk, and the number of missing parents.
    fn walk(repository: &Repository, id: SnapshotId) -> (String, u64) {
        let start = wait(repository.snapshot(id)).unwrap();
        let mut history = Ancestors::new(repository, id, start);
        let mut messages = String::new();
        while let Some((_, snapshot)) = history.next().unwrap() {
            messages += &snapshot.message;
        }
        (messages, history.missing)
    }

    #[test]
    fn each_snapshot_of_a_history_with_merges_comes_once() {
        let repository = repository();
        let a = add(&repository, snapshot("a", 1, &[]));
        let b = add(&repository, snapshot("b", 2, &[a]));
        // Created on a machine whose clock is behind.
        let c = add(&repository, snapshot("c", 0, &[a]));
        let d = add(&repository, snapshot("d", 4, &[b, c]));
        let e = add(&repository, snapshot("e", 5, &[d]));
        assert_eq!(walk(&repository, e), ("edbac".into(), 0));
    }

    #[test]
    fn the_ancestors_of_another_snapshot_can_be_left_out() {
        let repository = repository();
        let a = add(&repository, snapshot("a", 1, &[]));
        let b = add(&repository, snapshot("b", 2, &[a]));
        let c = add(&repository, snapshot("c", 3, &[a]));
        let d = add(&repository, snapshot("d", 4, &[b, c]));
        for (from, to, expected) in [(b, d, "dc"), (d, b, ""), (a, c, "c"), (c, c, "")] {
            let snapshot = |id| wait(repository.snapshot(id)).unwrap();
            let history = Ancestors::new(&repository, to, snapshot(to));
            let mut history = history.without(from, snapshot(from)).unwrap();
            let mut messages = String::new();
            while let Some((_, snapshot)) = history.next().unwrap() {
                messages += &snapshot.message;
            }
            assert_eq!(messages, expected);
        }
    }

    #[test]
    fn a_parent_that_is_not_stored_ends_the_history() {
        let repository = repository();
        let gone = SnapshotId(elevo_objects::Hash::from_bytes([1; 32]));
        let a = add(&repository, snapshot("a", 1, &[gone]));
        let b = add(&repository, snapshot("b", 2, &[a]));
        assert_eq!(walk(&repository, b), ("ba".into(), 1));
    }
}
