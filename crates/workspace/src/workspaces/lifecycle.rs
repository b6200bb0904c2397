//! Parks, resumes and removes workspaces.

use std::path::PathBuf;

use elevo_engine::{CommitInfo, Owner, Progress};

use super::{Snapshotted, Workspaces};
use crate::error::{Error, Result};
use crate::freeze::{Freeze, pause};
use crate::provider::ProviderKind;
use crate::record::{Record, State};
use elevo_core::WorkspaceId;

impl Workspaces {
    /// Takes a snapshot of a workspace and deletes its directory. Its home is
    /// stored as a separate snapshot.
    pub fn park(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let (record, locked) = self.lock(id)?;
        let _entrance = self.check_unused(&record, &locked.live_dir)?;
        let thaw = pause(id, freeze)?;
        let home = self.store_home(&record, &locked, &info, progress)?;
        let taken = self.snapshot_locked(record, &locked, info, progress)?;
        let mut registry = self.registry.lock()?;
        let parked = Record {
            state: State::Parked,
            home,
            ..registry.get(id)?
        };
        registry.set(parked)?;
        drop(registry);
        self.delete_locked(&locked)?;
        drop((thaw, locked));
        self.empty_trash()?;
        Ok(taken)
    }

    /// Creates the directory and home of a parked workspace again. Returns the
    /// directory. The files get the owner of new workspaces.
    pub fn resume(&self, id: &WorkspaceId, progress: &Progress) -> Result<PathBuf> {
        let parked = self.get(id)?;
        let provider = self.provider_to_resume(&parked);
        self.resume_by(parked, provider, progress)
    }

    /// Like [`Self::resume`], but the files keep the owner that they had.
    pub fn resume_for_owner(&self, id: &WorkspaceId, progress: &Progress) -> Result<PathBuf> {
        let parked = self.get(id)?;
        let provider = self.provider_to_resume(&parked);
        let owner = parked.owner;
        self.resume_with(parked, provider, owner, progress)
    }

    /// A private provider was requested by the user, so the workspace keeps it.
    fn provider_to_resume(&self, parked: &Record) -> ProviderKind {
        match parked.provider.is_private() {
            true => parked.provider,
            false => self.default_provider,
        }
    }

    /// Resumes a workspace with the given provider.
    pub(super) fn resume_by(
        &self,
        parked: Record,
        provider: ProviderKind,
        progress: &Progress,
    ) -> Result<PathBuf> {
        self.resume_with(parked, provider, self.owner, progress)
    }

    fn resume_with(
        &self,
        parked: Record,
        provider: ProviderKind,
        owner: Option<Owner>,
        progress: &Progress,
    ) -> Result<PathBuf> {
        if parked.state != State::Parked {
            return Err(Error::NotParked(parked.id));
        }
        let live = Record {
            state: State::Live,
            provider,
            origin: parked.base,
            owner,
            ..parked.clone()
        };
        self.create_workspace(live, Some(&parked), progress)
    }

    /// Removes a workspace and deletes its files. Changes that are in no
    /// snapshot are lost.
    pub fn remove(&self, id: &WorkspaceId) -> Result<()> {
        let record = self.get(id)?;
        // The files on a stuck pool would stay, without a record of them.
        #[cfg(target_os = "linux")]
        if crate::provider::looks_stuck(&self.root) {
            let stuck = std::io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(Error::io("remove a workspace in", &self.root)(stuck));
        }
        let locked = match record.state {
            State::Live => self.lock_if_present(id)?,
            State::Parked => None,
        };
        let _entrance = match &locked {
            Some(locked) => self.check_unused(&record, &locked.live_dir)?,
            None => None,
        };
        let mut registry = self.registry.lock()?;
        let now = registry.get(id)?;
        // Another process is resuming it, or has removed it and created it
        // again.
        let is_of_another = locked.is_none() && self.live_dir(id).exists();
        if now.state != record.state || is_of_another {
            return Err(Error::Busy(id.clone()));
        }
        registry.remove(id)?;
        match locked {
            Some(locked) => {
                drop(registry);
                self.delete_locked(&locked)?;
            }
            // The workspace is parked, or its directory was deleted by hand.
            None => self.release(&self.live_dir(id))?,
        }
        self.empty_trash()
    }
}
