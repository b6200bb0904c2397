//! Deletes data that is not needed any more.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::places::{Held, LOCK};
use super::{Workspaces, origin};
use crate::error::{Error, Result};
use crate::lock;
#[cfg(target_os = "linux")]
use crate::provider::ViewMounts;
use crate::record::State;
use crate::trash;

impl Workspaces {
    /// Deletes shared data that no workspace needs any more, beyond the amount
    /// that is kept for later. [`Workspaces::open`] does this too; a process
    /// that keeps workspaces open calls it from time to time. Does nothing
    /// while a workspace is being created.
    pub fn tidy(&self) -> Result<()> {
        self.tidy_providers()?;
        self.empty_trash()
    }

    fn tidy_providers(&self) -> Result<()> {
        let path = self.making_path();
        let alone = lock::try_alone(&path).map_err(Error::io("lock", &path))?;
        // The origins of workspaces in creation are not in the registry yet.
        let Some(_alone) = alone else {
            return Ok(());
        };
        let live = self.list()?.into_iter();
        let live = live.filter(|record| record.state == State::Live);
        let live = live.map(|record| Ok((self.snapshot_of(record.origin)?, record)));
        let live = live.collect::<Result<Vec<_>>>()?;
        let origins = live
            .iter()
            .map(|(made_from, record)| origin(record, made_from));
        let origins: Vec<_> = origins.collect();
        self.providers
            .values()
            .try_for_each(|provider| provider.tidy(&origins))
    }

    fn making_path(&self) -> PathBuf {
        self.root.join("making")
    }

    /// Keeps shared data from being deleted while a workspace is created from
    /// it.
    pub(super) fn making(&self) -> Result<File> {
        let path = self.making_path();
        lock::shared(&path).map_err(Error::io("lock", &path))
    }

    /// Moves a place into the trash. It stays locked until then, so that no
    /// process mistakes it for an abandoned place.
    pub(super) fn throw(&self, held: &Held) -> Result<()> {
        self.throw_place(&held.place)
    }

    fn throw_place(&self, place: &Path) -> Result<()> {
        self.release(place)?;
        trash::throw(place, &self.trash())
    }

    /// Releases the mounts and the pool's data of a place.
    pub(super) fn release(&self, place: &Path) -> Result<()> {
        let mut providers = self.providers.values();
        providers.try_for_each(|provider| provider.release(place))
    }

    fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    pub(super) fn empty_trash(&self) -> Result<()> {
        let trash = self.trash();
        trash::empty(&trash).map_err(Error::io("empty", &trash))
    }

    /// Deletes places that no live workspace has and that are not locked.
    pub(super) fn clear_away(&self) -> Result<()> {
        self.tidy_providers()?;
        // No process creates a place while the registry is locked.
        let registry = self.registry.lock()?;
        let live = self.root.join("live");
        let list = || fs::read_dir(&live)?.collect::<io::Result<Vec<_>>>();
        for entry in list().map_err(Error::io("list", &live))? {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.parse().ok());
            let record = id.as_ref().and_then(|id| registry.records().get(id));
            if record.is_some_and(|record| record.state == State::Live) {
                continue;
            }
            let place = entry.path();
            let lock = File::open(place.join(LOCK));
            let is_held = lock.as_ref().is_ok_and(|lock| lock.try_lock().is_err());
            if !is_held {
                self.throw_place(&place)?;
            }
        }
        drop(registry);
        self.empty_trash()?;
        self.delete_interrupted_reads()?;
        #[cfg(target_os = "linux")]
        self.finish_interrupted_follows()?;
        Ok(())
    }

    fn delete_interrupted_reads(&self) -> Result<()> {
        let Some(volume) = self.volume() else {
            return Ok(());
        };
        for name in volume.interrupted_reads()? {
            let Ok(id) = name.parse() else { continue };
            // A lock that is held shows that the read is still in progress.
            if let Ok(_held) = self.hold_place(&id) {
                volume.delete_interrupted_read(&name)?;
            }
        }
        Ok(())
    }

    /// Shows the new snapshot in read-only workspaces that were killed on the
    /// way to it: readers should see it even if no other call comes.
    #[cfg(target_os = "linux")]
    fn finish_interrupted_follows(&self) -> Result<()> {
        let stacked = ViewMounts::new(&self.root).stacked();
        let stacked = stacked.map_err(Error::io("read", Path::new("/proc/self/mountinfo")))?;
        for id in stacked.iter().flat_map(|name| name.parse()) {
            if self.get(&id).is_ok_and(|record| record.read_only) {
                // If this fails, the next call shows the snapshot.
                let _ = self.path(&id);
            }
        }
        Ok(())
    }
}
