//! Copies of workspaces for backups.

use std::path::Path;

use elevo_engine::{CommitInfo, Progress};

use super::Workspaces;
use crate::error::Result;
use crate::freeze::{Freeze, stop};
use crate::id::WorkspaceId;
use crate::record::{Record, State};
use crate::registry::Registry;

impl Workspaces {
    /// Stores what a workspace holds, its home included, and returns the record
    /// of a parked copy of it. The workspace itself stays as it is, with the
    /// base that it has. The files are of one moment where those of
    /// [`Self::snapshot`] are.
    ///
    /// Nothing but the record refers to the snapshots: the caller keeps
    /// collections away until the record is where it belongs.
    pub fn copy_of(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Record> {
        let (record, held) = self.hold(id)?;
        let is_atomic = self.provider_of(&record).is_atomic(&held.place);
        let _thaw = match is_atomic || record.read_only {
            true => None,
            false => Some(stop(id, freeze)?),
        };
        let home = self.store_home(&record, &held, &info, progress)?;
        let base = self.store_files(&record, &held, info, progress)?.id;
        Ok(Record {
            state: State::Parked,
            base,
            home,
            ..record
        })
    }
}

/// Makes a registry in `root`, where no workspaces are yet, that has these
/// records. Durable when this returns.
pub fn write_records(root: &Path, records: Vec<Record>) -> Result<()> {
    let registry = Registry::open(&root.join("registry"), &root.join("live"))?;
    let mut registry = registry.lock()?;
    match records.is_empty() {
        true => Ok(()),
        false => registry.set_all(records),
    }
}
