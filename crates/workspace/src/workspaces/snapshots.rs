//! Reads and stores the snapshots of workspaces.

use std::collections::BTreeMap;
use std::path::Path;

use elevo_core::Timestamp;
use elevo_engine::{Commit, CommitInfo, Guard, Progress};
use elevo_objects::{Hash, Snapshot, SnapshotId, Tree};
use futures::executor::block_on;

use super::locked::LockedWorkspace;
use super::{Snapshotted, Workspaces, origin};
use crate::changes::Changes;
use crate::error::{Error, Result};
use crate::freeze::{Freeze, Thaw, pause};
use crate::provider::{Origin, Reading, Scan, WorkspaceProvider};
use crate::record::Record;
use crate::registry::{Registry, has_entries};
use elevo_core::WorkspaceId;

/// Returns the snapshots that the workspaces in `root` need; none if there are
/// no workspaces.
pub fn needed_snapshots(root: &Path) -> Result<Vec<SnapshotId>> {
    let directory = root.join("registry");
    let live = root.join("live");
    if !directory.is_dir() {
        return match has_entries(&live) {
            true => Err(Error::NoRegistry(directory)),
            false => Ok(Vec::new()),
        };
    }
    let registry = Registry::open(&directory, &live)?;
    let registry = registry.lock()?;
    let records = registry.records().values();
    Ok(records.flat_map(Record::needs).collect())
}

impl Workspaces {
    /// Compares the files that `scan` returns with the base.
    pub(super) fn compare(
        &self,
        id: &WorkspaceId,
        scan: impl FnOnce(&dyn WorkspaceProvider, &Path, Origin<'_>) -> Result<Scan>,
    ) -> Result<Changes> {
        let (record, locked) = self.lock(id)?;
        let base = self.snapshot_of(record.base)?;
        let start = self.snapshot_of(record.start)?;
        if record.read_only {
            return Ok(Changes {
                base: record.base,
                tree: base.tree,
                before: base.tree,
                start: start.tree,
                repository: self.repository.clone(),
            });
        }
        let snapshot = self.snapshot_of(record.origin)?;
        let origin = origin(&record, &snapshot);
        let Scan { tree, view } = scan(self.provider_of(&record), &locked.live_dir, origin)?;
        Ok(Changes {
            base: record.base,
            tree,
            before: base.tree,
            start: start.tree,
            repository: view,
        })
    }

    /// Pauses the writers of a workspace that is about to be read, unless it is
    /// read at one moment anyway.
    pub(super) fn pause_unless_atomic<'a>(
        &self,
        record: &Record,
        locked: &LockedWorkspace,
        freeze: &'a dyn Freeze,
    ) -> Result<Option<Thaw<'a>>> {
        let atomic = self.provider_of(record).atomic_forks(&locked.live_dir);
        match record.read_only || atomic.is_some() {
            true => Ok(None),
            false => pause(&record.id, freeze).map(Some),
        }
    }

    pub(super) fn snapshot_locked(
        &self,
        record: Record,
        locked: &LockedWorkspace,
        info: CommitInfo,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let taken = self.store_files(&record, locked, info, progress)?;
        if taken.is_new {
            let mut registry = self.registry.lock()?;
            let base = taken.id;
            registry.set(Record { base, ..record })?;
        }
        Ok(taken)
    }

    /// Stores the files of a workspace as a snapshot, without making it the
    /// base.
    pub(super) fn store_files(
        &self,
        record: &Record,
        locked: &LockedWorkspace,
        info: CommitInfo,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        if record.read_only {
            return Ok(Snapshotted {
                id: record.base,
                is_new: false,
                losses: Vec::new(),
            });
        }
        let base = self.snapshot_of(record.base)?;
        let snapshot = self.snapshot_of(record.origin)?;
        let origin = origin(record, &snapshot);
        let reading = self
            .provider_of(record)
            .read(&locked.live_dir, origin, progress)?;
        let losses = reading.losses().to_vec();
        let is_new = !is_same(&reading, &base);
        let mut id = record.base;
        if is_new {
            let parents = vec![record.base];
            id = reading.commit(&self.repository, CommitInfo { parents, ..info })?;
        } else {
            reading.keep(id);
        }
        Ok(Snapshotted { id, is_new, losses })
    }

    pub(super) fn snapshot_of(&self, id: SnapshotId) -> Result<Snapshot> {
        Ok(block_on(self.repository.snapshot(id))?)
    }

    /// Returns a snapshot with a guard that keeps it from garbage collection
    /// until a record refers to it.
    pub(super) fn guarded_snapshot(&self, id: SnapshotId) -> Result<(Guard, Snapshot)> {
        Ok(block_on(self.repository.hold(id))?)
    }

    /// Returns the empty snapshot, and stores it if necessary.
    pub(super) fn empty_snapshot(&self) -> Result<SnapshotId> {
        let empty = anonymous_snapshot(Tree::EMPTY, None);
        let (id, _) = empty.encode().map_err(elevo_engine::Error::from)?;
        match block_on(self.repository.snapshot(id)) {
            Err(elevo_engine::Error::NoSuchSnapshot(_)) => {}
            found => return Ok(found.map(|_| id)?),
        }
        let commit = Commit {
            snapshots: vec![empty],
            ..Commit::default()
        };
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let committed = block_on(store.commit(tenant, commit));
        committed.map_err(elevo_engine::Error::from)?;
        Ok(id)
    }
}

fn is_same(reading: &Reading, base: &Snapshot) -> bool {
    reading.imported.tree == base.tree && reading.imported.times == base.times
}

/// A snapshot without author, message, parents and time.
pub(super) fn anonymous_snapshot(tree: Tree, times: Option<Hash>) -> Snapshot {
    Snapshot {
        tree,
        times,
        parents: Vec::new(),
        author: String::new(),
        message: String::new(),
        created: Timestamp::new(0, 0).unwrap_or_else(|| unreachable!("no nanoseconds")),
        labels: BTreeMap::new(),
    }
}
