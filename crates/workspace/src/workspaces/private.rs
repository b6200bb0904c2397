//! Private workspaces, which only processes that enter them see.

use std::fs::File;
use std::path::{Path, PathBuf};

use elevo_engine::{CommitInfo, Progress};

use super::{Snapshotted, Workspaces, origin};
use crate::error::{Error, Result};
use crate::freeze::NeverFreeze;
use crate::record::Record;
use elevo_core::WorkspaceId;

/// The way in which a process reaches the files of a workspace.
#[derive(Clone, Debug)]
pub enum WorkspaceAccess {
    /// It opens this directory.
    Directory(PathBuf),
    /// It has to enter the workspace.
    #[cfg(target_os = "linux")]
    Entrance(crate::Entrance),
}

impl Workspaces {
    /// Returns how a process reaches the files of a live workspace.
    pub fn access(&self, id: &WorkspaceId, progress: &Progress) -> Result<WorkspaceAccess> {
        #[cfg(target_os = "linux")]
        {
            // Not locked: many processes may enter at once, and each checks
            // again when it enters.
            let record = self.live_record(id)?;
            let snapshot = self.snapshot_of(record.origin)?;
            let origin = origin(&record, &snapshot);
            if let Some(private) = self.provider_of(&record).private()
                && let Some(entrance) = private.entrance(&self.live_dir(id), origin, progress)?
            {
                // If the record has changed, the entrance may belong to another
                // workspace that was created under the same id.
                return match self.live_record(id)? == record {
                    true => Ok(WorkspaceAccess::Entrance(entrance)),
                    false => Err(Error::Busy(id.clone())),
                };
            }
        }
        self.path(id).map(WorkspaceAccess::Directory)
    }

    /// Converts a private workspace into an ordinary one that every process can
    /// see, with the provider for new workspaces, keeping its changes. Fails if
    /// a process is inside. Returns the snapshot taken, with the losses.
    ///
    /// The workspace is parked and resumed; if this is interrupted, it stays
    /// parked.
    pub fn make_ordinary(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let before = self.live_record(id)?;
        let taken = self.park(id, info, &NeverFreeze, progress)?;
        self.resume_by(self.get(id)?, self.default_provider, progress)?;
        let mut registry = self.registry.lock()?;
        // Keep the old base, so that `changes` still shows the changes.
        let record = Record {
            base: before.base,
            ..registry.get(id)?
        };
        registry.set(record)?;
        Ok(taken)
    }

    /// Fails if processes are inside a workspace. No process can enter it while
    /// the returned file is held.
    pub(super) fn check_unused(&self, record: &Record, live_dir: &Path) -> Result<Option<File>> {
        let Some(private) = self.provider_of(record).private() else {
            return Ok(None);
        };
        // The entrance is locked before the check, so that no process can enter
        // after the check.
        let entrance = private.lock_entrance(live_dir)?;
        let pids = private.users(live_dir)?;
        match pids.is_empty() {
            true => Ok(Some(entrance)),
            false => Err(Error::InUse {
                id: record.id.to_string(),
                pids,
            }),
        }
    }
}
