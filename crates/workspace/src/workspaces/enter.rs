//! Workspaces that are seen only by those who enter them.

use std::fs::File;
use std::path::{Path, PathBuf};

use elevo_engine::{CommitInfo, Progress};

use super::{Snapshotted, Workspaces, origin};
use crate::error::{Error, Result};
use crate::freeze::NeverFreeze;
use crate::id::WorkspaceId;
use crate::record::Record;

/// How a process gets to the files of a workspace.
#[derive(Clone, Debug)]
pub enum Way {
    /// They are in this directory.
    Directory(PathBuf),
    /// It has to enter it.
    #[cfg(target_os = "linux")]
    Entrance(crate::Entrance),
}

impl Workspaces {
    /// How a process gets to the files of a workspace that is not parked.
    pub fn way(&self, id: &WorkspaceId, progress: &Progress) -> Result<Way> {
        #[cfg(target_os = "linux")]
        {
            // Not held: many may come at once, and whoever enters looks again.
            let record = self.live(id)?;
            let made_from = self.snapshot_of(record.origin)?;
            let origin = origin(&record, &made_from);
            let provider = self.provider_of(&record);
            if record.provider.is_private()
                && let Some(entrance) = provider.entrance(&self.place(id), origin, progress)?
            {
                // Otherwise it is that of another one, which was made meanwhile.
                return match self.live(id)? == record {
                    true => Ok(Way::Entrance(entrance)),
                    false => Err(Error::Busy(id.clone())),
                };
            }
        }
        self.path(id).map(Way::Directory)
    }

    /// Makes a workspace that only those see who enter it one that everybody
    /// sees, made as new ones are, with all that was changed in it. Nobody may
    /// be in it. Says what of it could not be kept.
    ///
    /// What is in it is stored on the way; if this is cut off, it is parked.
    pub fn open_up(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let before = self.live(id)?;
        let taken = self.park(id, info, &NeverFreeze, progress)?;
        self.resume_by(self.get(id)?, self.chosen, progress)?;
        let mut registry = self.registry.lock()?;
        // What was changed in it is still to be seen.
        let record = Record {
            base: before.base,
            ..registry.get(id)?
        };
        registry.set(record)?;
        Ok(taken)
    }

    /// Refuses to take a workspace away under those who are in it. Nobody enters
    /// it while what is returned is held.
    pub(super) fn check_unused(&self, record: &Record, place: &Path) -> Result<Option<File>> {
        let provider = self.provider_of(record);
        let entrance = provider.hold_entrance(place)?;
        let pids = provider.users(place)?;
        match pids.is_empty() {
            true => Ok(entrance),
            false => Err(Error::InUse {
                id: record.id.to_string(),
                pids,
            }),
        }
    }
}
