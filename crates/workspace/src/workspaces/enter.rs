//! Workspaces that are seen only by those who enter them.

use std::path::{Path, PathBuf};

use elevo_engine::{CommitInfo, Progress};

use super::{Workspaces, origin};
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
            let (record, held) = self.hold(id)?;
            let made_from = self.snapshot_of(record.origin)?;
            let origin = origin(&record, &made_from);
            let provider = self.provider_of(&record);
            let entrance = provider.entrance(&held.place, origin, progress)?;
            if let Some(entrance) = entrance.filter(|_| !record.read_only) {
                return Ok(Way::Entrance(entrance));
            }
        }
        self.path(id).map(Way::Directory)
    }

    /// Makes a workspace that only those see who enter it one that everybody
    /// sees, made as new ones are, with all that was changed in it. Nobody may
    /// be in it. Returns its directory.
    ///
    /// What is in it is stored on the way; if this is cut off, it is parked.
    pub fn open_up(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let before = self.live(id)?;
        self.park(id, info, &NeverFreeze, progress)?;
        self.resume_by(self.get(id)?, self.chosen, progress)?;
        let mut registry = self.registry.lock()?;
        // What was changed in it is still to be seen.
        let record = Record {
            base: before.base,
            ..registry.get(id)?
        };
        registry.set(record)?;
        drop(registry);
        self.path(id)
    }

    /// Refuses to take a workspace away under those who are in it.
    pub(super) fn check_unused(&self, record: &Record, place: &Path) -> Result<()> {
        let pids = self.provider_of(record).users(place)?;
        match pids.is_empty() {
            true => Ok(()),
            false => Err(Error::InUse {
                id: record.id.clone(),
                pids,
            }),
        }
    }
}
