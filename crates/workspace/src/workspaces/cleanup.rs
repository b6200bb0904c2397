//! Deletes data that is not needed any more.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::locked::{LOCK, LockedWorkspace};
use super::{Workspaces, origin};
use elevo_core::WorkspaceId;

use crate::error::{Error, Result};
use crate::lock;
#[cfg(target_os = "linux")]
use crate::provider::ViewMounts;
use crate::record::State;
use crate::trash;

impl Workspaces {
    /// Deletes the remains of workspaces whose removal failed, and shared data
    /// that no workspace needs any more, beyond the amount that is kept for
    /// later. [`Workspaces::open`] does this too; a process that keeps
    /// workspaces open calls it from time to time.
    pub fn tidy(&self) -> Result<()> {
        let providers = self.tidy_providers();
        let abandoned = self.delete_abandoned();
        // Emptied even if the others failed, since it frees space.
        let trash = self.empty_trash();
        providers.and(abandoned).and(trash)
    }

    /// Does nothing while a workspace is being created.
    fn tidy_providers(&self) -> Result<()> {
        let path = self.shared_data_lock();
        let lock = lock::try_exclusive(&path).map_err(Error::io("lock", &path))?;
        // If the lock is held, a workspace is being created, and its origin is
        // not in the registry yet.
        let Some(_lock) = lock else {
            return Ok(());
        };
        let live = self.list()?.into_iter();
        let live = live.filter(|record| record.state == State::Live);
        let live = live.map(|record| Ok((self.snapshot_of(record.origin)?, record)));
        let live = live.collect::<Result<Vec<_>>>()?;
        let origins = live
            .iter()
            .map(|(snapshot, record)| origin(record, snapshot));
        let origins: Vec<_> = origins.collect();
        self.providers
            .values()
            .try_for_each(|provider| provider.tidy(&origins))
    }

    /// Returns the lock file that is locked exclusively to delete data that
    /// workspaces share.
    fn shared_data_lock(&self) -> PathBuf {
        self.root.join("making")
    }

    /// Keeps shared data from being deleted while a workspace is created from
    /// it.
    pub(super) fn lock_shared_data(&self) -> Result<File> {
        let path = self.shared_data_lock();
        lock::shared(&path).map_err(Error::io("lock", &path))
    }

    /// Moves the directory of a workspace into the trash. It stays locked until
    /// then, so that no process mistakes it for an abandoned directory.
    pub(super) fn delete_locked(&self, locked: &LockedWorkspace) -> Result<()> {
        self.delete_live_dir(&locked.live_dir)
    }

    fn delete_live_dir(&self, live_dir: &Path) -> Result<()> {
        self.release(live_dir)?;
        trash::move_into(live_dir, &self.trash())
    }

    /// Releases the mounts of a workspace and its data in the pool. Calls every
    /// provider, since an abandoned directory has no record that names its
    /// provider.
    pub(super) fn release(&self, live_dir: &Path) -> Result<()> {
        let mut providers = self.providers.values();
        providers.try_for_each(|provider| provider.release(live_dir))
    }

    fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    pub(super) fn empty_trash(&self) -> Result<()> {
        let trash = self.trash();
        trash::empty(&trash).map_err(Error::io("empty", &trash))
    }

    /// Deletes the remains of processes that were killed: abandoned directories
    /// and interrupted reads. Shows the snapshots that interrupted calls of
    /// [`Workspaces::follow`] recorded.
    pub(super) fn clean_up(&self) -> Result<()> {
        self.tidy_providers()?;
        // Remains that cannot be deleted keep no workspace from being used; the
        // next call of `tidy` reports the error.
        let _ = self.delete_abandoned();
        self.empty_trash()?;
        self.delete_interrupted_reads()?;
        #[cfg(target_os = "linux")]
        self.finish_interrupted_follows()?;
        Ok(())
    }

    /// Deletes the directories that no live workspace has and that are not
    /// locked. Continues after an error, and returns the first.
    fn delete_abandoned(&self) -> Result<()> {
        // No process creates a directory while the registry is locked.
        let registry = self.registry.lock()?;
        let live = self.root.join("live");
        let list = || fs::read_dir(&live)?.collect::<io::Result<Vec<_>>>();
        let mut result = Ok(());
        for entry in list().map_err(Error::io("list", &live))? {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.parse().ok());
            let record = id.and_then(|id: WorkspaceId| registry.records().get(&id));
            if record.is_some_and(|record| record.state == State::Live) {
                continue;
            }
            let live_dir = entry.path();
            let lock = match File::open(live_dir.join(LOCK)) {
                Ok(lock) if lock.try_lock().is_ok() => Some(lock),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                // The lock is held, or cannot be read: it may be held.
                _ => continue,
            };
            result = result.and(self.delete_live_dir(&live_dir));
            drop(lock);
        }
        result
    }

    fn delete_interrupted_reads(&self) -> Result<()> {
        let Some(volume) = self.volume() else {
            return Ok(());
        };
        for name in volume.interrupted_reads()? {
            let Ok(id) = name.parse() else { continue };
            // A lock that is held shows that the read is still in progress.
            if let Ok(_locked) = self.lock_live_dir(&id) {
                volume.delete_interrupted_read(&name)?;
            }
        }
        Ok(())
    }

    /// Finishes calls of [`Workspaces::follow`] that were killed: readers should
    /// see the new snapshot even if no other call for the workspace comes.
    #[cfg(target_os = "linux")]
    fn finish_interrupted_follows(&self) -> Result<()> {
        let surplus = ViewMounts::new(&self.root).with_surplus_mounts();
        let surplus = surplus.map_err(Error::io("read", Path::new("/proc/self/mountinfo")))?;
        for id in surplus.iter().flat_map(|name| name.parse()) {
            if self.get(&id).is_ok_and(|record| record.read_only) {
                // If this fails, the next call shows the snapshot.
                let _ = self.path(&id);
            }
        }
        Ok(())
    }
}
