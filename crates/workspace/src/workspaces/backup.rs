//! Copies of workspaces for backups.

use std::path::Path;

use elevo_engine::{CommitInfo, Progress};

use super::Workspaces;
use crate::error::Result;
use crate::freeze::Freeze;
use crate::record::{Record, State};
use crate::registry::Registry;
use elevo_core::WorkspaceId;

impl Workspaces {
    /// Stores the files and the home of a workspace, and returns the record of
    /// a parked copy of it. The workspace itself and its base do not change.
    /// The files are of one moment if those of [`Self::snapshot`] would be.
    ///
    /// Only the record refers to the snapshots: the caller prevents garbage
    /// collection until the record is stored.
    pub fn copy_of(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Record> {
        let (record, locked) = self.lock(id)?;
        let _thaw = self.pause_unless_atomic(&record, &locked, freeze)?;
        let home = self.store_home(&record, &locked, &info, progress)?;
        let base = self.store_files(&record, &locked, info, progress)?.id;
        Ok(Record {
            state: State::Parked,
            base,
            home,
            ..record
        })
    }
}

/// Creates a registry with these records in `root`, which has no workspaces
/// yet. Durable when this returns.
pub fn write_records(root: &Path, records: Vec<Record>) -> Result<()> {
    let registry = Registry::open(&root.join("registry"), &root.join("live"))?;
    let mut registry = registry.lock()?;
    match records.is_empty() {
        true => Ok(()),
        false => registry.set_all(records),
    }
}
