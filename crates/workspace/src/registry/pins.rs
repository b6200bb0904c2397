//! The snapshots that workspaces need, as refs in the store, for a store that
//! several nodes use: a collection by another node cannot read this registry.
//!
//! ```text
//! pins/NODE/WORKSPACE/SNAPSHOT   keeps the snapshot, without its history
//! ```
//!
//! A ref is set before the line of the registry that needs it, and deleted some
//! time after it is not needed. So the refs always have all needed snapshots.

use std::collections::{BTreeMap, BTreeSet};

use elevo_core::WorkspaceId;
use elevo_engine::{Commit, Error as EngineError, Expected, PINS, ReferenceUpdate, Repository};
use elevo_objects::SnapshotId;
use futures::executor::block_on;
use parking_lot::Mutex;

use crate::error::Result;
use crate::record::Record;

/// Refs that are listed or changed at a time.
const PAGE: usize = 256;

/// The refs of a node's workspaces.
#[derive(Debug)]
pub(crate) struct Pins {
    repository: Repository,
    /// First part of their names.
    prefix: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The refs that exist.
    set: BTreeMap<WorkspaceId, BTreeSet<SnapshotId>>,
    /// Names of refs that nothing needs any more.
    unneeded: BTreeSet<String>,
}

impl Pins {
    pub(crate) fn new(repository: Repository, node: &str) -> Self {
        Self {
            repository,
            prefix: format!("{PINS}{node}/"),
            state: Mutex::default(),
        }
    }

    fn name(&self, workspace: &WorkspaceId, snapshot: SnapshotId) -> String {
        format!("{}{workspace}/{snapshot}", self.prefix)
    }

    /// Sets the refs of all records, and deletes all others: a process may have
    /// been killed between a change of a ref and of the registry.
    pub(crate) fn reconcile(&self, records: &BTreeMap<WorkspaceId, Record>) -> Result<()> {
        let mut found = self.list()?;
        {
            let mut state = self.state.lock();
            for record in records.values() {
                let needed: BTreeSet<_> = record.needs().collect();
                let is_set =
                    |snapshot: &SnapshotId| found.remove(&self.name(&record.id, *snapshot));
                let set = needed.into_iter().filter(is_set).collect();
                state.set.insert(record.id.clone(), set);
            }
            state.unneeded = found;
        }
        self.require(records.values())?;
        self.delete_unneeded()
    }

    fn list(&self) -> Result<BTreeSet<String>> {
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let mut names = BTreeSet::new();
        loop {
            let after = names.last().map(String::as_str);
            let page = store.list_references(tenant, &self.prefix, after, PAGE);
            let page = block_on(page).map_err(EngineError::from)?;
            let is_last = page.len() < PAGE;
            names.extend(page.into_iter().map(|(name, _)| name));
            if is_last {
                return Ok(names);
            }
        }
    }

    /// Sets the refs that these records need. The records may be written when this
    /// returns.
    pub(crate) fn require<'a>(&self, records: impl Iterator<Item = &'a Record>) -> Result<()> {
        let mut state = self.state.lock();
        let mut missing = Vec::new();
        for record in records {
            let set = state.set.get(&record.id);
            for snapshot in record.needs().collect::<BTreeSet<_>>() {
                if set.is_none_or(|set| !set.contains(&snapshot)) {
                    missing.push((record.id.clone(), snapshot));
                }
            }
        }
        for part in missing.chunks(PAGE) {
            let mut changes: BTreeMap<_, _> = part
                .iter()
                .map(|(id, snapshot)| (self.name(id, *snapshot), Some(*snapshot)))
                .collect();
            // In the same call, since there is one.
            for name in state.unneeded.iter().take(PAGE) {
                changes.entry(name.clone()).or_insert(None);
            }
            self.commit(&changes)?;
            state.unneeded.retain(|name| !changes.contains_key(name));
            for (id, snapshot) in part {
                let set = state.set.entry(id.clone()).or_default();
                set.insert(*snapshot);
            }
        }
        Ok(())
    }

    /// Notes the records that were written: refs that they do not need are deleted
    /// with the next change.
    pub(crate) fn note_written(&self, records: &[Record]) {
        let mut state = self.state.lock();
        for record in records {
            let needed: BTreeSet<_> = record.needs().collect();
            let set = state.set.insert(record.id.clone(), needed.clone());
            let gone = set.into_iter().flatten();
            let gone = gone.filter(|snapshot| !needed.contains(snapshot));
            let names: Vec<_> = gone.map(|gone| self.name(&record.id, gone)).collect();
            state.unneeded.extend(names);
        }
    }

    /// Deletes the refs of a workspace that was removed from the registry.
    pub(crate) fn release(&self, id: &WorkspaceId) {
        let mut state = self.state.lock();
        let gone = state.set.remove(id).into_iter().flatten();
        let names: Vec<_> = gone.map(|gone| self.name(id, gone)).collect();
        state.unneeded.extend(names);
        drop(state);
        // If this fails, they are deleted with the next change.
        let _ = self.delete_unneeded();
    }

    fn delete_unneeded(&self) -> Result<()> {
        let mut state = self.state.lock();
        while !state.unneeded.is_empty() {
            let names = state.unneeded.iter().take(PAGE);
            let changes: BTreeMap<_, _> = names.map(|name| (name.clone(), None)).collect();
            self.commit(&changes)?;
            state.unneeded.retain(|name| !changes.contains_key(name));
        }
        Ok(())
    }

    fn commit(&self, changes: &BTreeMap<String, Option<SnapshotId>>) -> Result<()> {
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let update = |(name, target): (&String, &Option<SnapshotId>)| ReferenceUpdate {
            name: name.clone(),
            expected: Expected::Any,
            target: *target,
        };
        let commit = Commit {
            references: changes.iter().map(update).collect(),
            ..Commit::default()
        };
        let committed = block_on(store.commit(tenant, commit));
        committed.map(drop).map_err(EngineError::from)?;
        Ok(())
    }
}
