//! Creates workspaces: all of a call, or none.
//!
//! 1. Create and lock the directories. A directory without a record in the
//!    registry is half created or half deleted; its lock shows whether a
//!    process still works on it.
//! 2. Let the provider fill them.
//! 3. Add the records to the registry. From here on the workspaces exist.
//!
//! A failure rolls back the directories. After a kill, the next
//! [`Workspaces::open`] deletes them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use elevo_engine::Progress;

use super::locked::{LOCK, LockedWorkspace};
use super::{Workspaces, origin};
use crate::error::{Error, Result};
use crate::provider::Origin;
use crate::record::Record;
use elevo_core::WorkspaceId;

/// A workspace that has a directory, but is not in the registry yet.
struct NewWorkspace {
    record: Record,
    locked: LockedWorkspace,
}

impl Workspaces {
    /// Creates a workspace. `parked` is its record if it was parked.
    pub(super) fn create_workspace(
        &self,
        record: Record,
        parked: Option<&Record>,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let locked = self.create_live_dir(&record.id, parked)?;
        let provider = self.provider_of(&record);
        let (created, live_dir) = (record.clone(), locked.live_dir.clone());
        let new = vec![NewWorkspace { record, locked }];
        self.fill_and_register(new, |live_dirs, origin| {
            let home = parked.map_or(Ok(None), |parked| self.load_home(parked))?;
            live_dirs.iter().try_for_each(|live_dir| {
                provider.create(live_dir, origin, progress)?;
                self.create_home(provider, live_dir, origin.owner, home.as_ref(), progress)
            })
        })?;
        Ok(self.files_of(&created, &live_dir))
    }

    /// Creates workspaces with the same origin; all or none.
    pub(super) fn create_all(
        &self,
        records: Vec<Record>,
        fill: impl FnOnce(&[&Path], Origin<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut new = Vec::with_capacity(records.len());
        for record in records {
            match self.create_live_dir(&record.id, None) {
                Ok(locked) => new.push(NewWorkspace { record, locked }),
                Err(error) => {
                    self.roll_back(new)?;
                    return Err(error);
                }
            }
        }
        self.fill_and_register(new, fill)
    }

    /// Fills the directories of new workspaces with `fill`, and then adds their
    /// records to the registry.
    fn fill_and_register(
        &self,
        new: Vec<NewWorkspace>,
        fill: impl FnOnce(&[&Path], Origin<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(NewWorkspace { record: first, .. }) = new.first() else {
            return Ok(());
        };
        let live_dirs: Vec<_> = new
            .iter()
            .map(|new| new.locked.live_dir.as_path())
            .collect();
        let create = || {
            // The lock and the guard are held until the records are in the
            // registry: they protect the layers from `tidy`, and the snapshot
            // from garbage collection.
            let _shared = self.lock_shared_data()?;
            let (_guard, snapshot) = self.guarded_snapshot(first.origin)?;
            fill(&live_dirs, origin(first, &snapshot))?;
            let records = new.iter().map(|new| new.record.clone());
            // One line for all records, so that a kill leaves all or none.
            self.registry.lock()?.set_all(records.collect())
        };
        let created = create();
        if created.is_err() {
            self.roll_back(new)?;
        }
        created
    }

    fn roll_back(&self, new: Vec<NewWorkspace>) -> Result<()> {
        for NewWorkspace { locked, .. } in &new {
            self.delete_locked(locked)?;
        }
        // The locks are not needed to empty the trash, which can take long.
        drop(new);
        self.empty_trash()
    }

    /// Creates and locks an empty directory. Fails if the record of the
    /// workspace is not `parked`.
    fn create_live_dir(
        &self,
        id: &WorkspaceId,
        parked: Option<&Record>,
    ) -> Result<LockedWorkspace> {
        // Held until the lock file is locked: `clean_up` deletes directories
        // that are not locked, and does so under this lock.
        let registry = self.registry.lock()?;
        if registry.records().get(id) != parked {
            return Err(Error::Exists(id.clone()));
        }
        let live_dir = self.live_dir(id);
        let create = || -> io::Result<File> {
            fs::create_dir(&live_dir)?;
            let lock = File::create_new(live_dir.join(LOCK))?;
            lock.try_lock()?;
            Ok(lock)
        };
        match create() {
            Ok(lock) => Ok(LockedWorkspace::new(live_dir, lock)),
            // Another process is creating or deleting the workspace.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::Busy(id.clone()))
            }
            Err(error) => Err(Error::io("create", &live_dir)(error)),
        }
    }
}
