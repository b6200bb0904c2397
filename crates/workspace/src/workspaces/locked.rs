//! Locks the directories of workspaces against other callers, and makes the
//! files of a locked workspace visible.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use elevo_engine::Progress;

use super::{Workspaces, origin};
use crate::error::{Error, Result};
use crate::lock;
use crate::record::{Record, State};
use elevo_core::WorkspaceId;

/// A workspace that this caller has locked.
#[derive(Debug)]
pub(super) struct LockedWorkspace {
    /// The directory `live/ID`.
    pub(super) live_dir: PathBuf,
    _lock: File,
}

/// The lock file in the directory of a workspace.
pub(super) const LOCK: &str = "lock";

impl LockedWorkspace {
    /// `lock` is the lock file in `live_dir`, which the caller has locked.
    pub(super) fn new(live_dir: PathBuf, lock: File) -> Self {
        Self {
            live_dir,
            _lock: lock,
        }
    }
}

impl Workspaces {
    /// Returns the directory that the provider of a workspace works in.
    pub(super) fn live_dir(&self, id: &WorkspaceId) -> PathBuf {
        self.root.join("live").join(id.as_str())
    }

    /// Returns the record of a workspace that is not parked.
    pub(super) fn live_record(&self, id: &WorkspaceId) -> Result<Record> {
        let record = self.get(id)?;
        match record.state {
            State::Live => Ok(record),
            State::Parked => Err(Error::Parked(id.clone())),
        }
    }

    /// Locks a workspace against other callers, and attaches it if it is not
    /// attached.
    pub(super) fn lock(&self, id: &WorkspaceId) -> Result<(Record, LockedWorkspace)> {
        self.live_record(id)?;
        let locked = self.lock_live_dir(id);
        // Read again, and before an error of the lock is returned: another
        // caller may have changed, parked or removed the workspace before the
        // lock was acquired, and "parked" says more than "no such file".
        let record = self.live_record(id)?;
        let locked = locked?;
        let live_dir = &locked.live_dir;
        if !self.is_attached(&record, live_dir)? && self.can_attach(&record, live_dir)? {
            self.attach(&record, live_dir)?;
        }
        Ok((record, locked))
    }

    /// Makes the expected files visible.
    fn attach(&self, record: &Record, live_dir: &Path) -> Result<()> {
        let provider = self.provider_of(record);
        let (snapshot, progress) = (self.snapshot_of(record.origin)?, Progress::new());
        let origin = origin(record, &snapshot);
        if record.read_only {
            let views = provider.views();
            return views.ensure_shown(live_dir, origin, &progress);
        }
        match provider.mounts() {
            Some(mounts) => mounts.mount(live_dir, origin, &progress),
            None => Ok(()),
        }
    }

    /// Whether this process can make the files visible, instead of only
    /// entering a private workspace.
    pub(super) fn can_attach(&self, record: &Record, live_dir: &Path) -> Result<bool> {
        let private = self.provider_of(record).private();
        private.map_or(Ok(true), |private| private.can_mount(live_dir))
    }

    /// Whether the expected files are visible.
    pub(super) fn is_attached(&self, record: &Record, live_dir: &Path) -> Result<bool> {
        let provider = self.provider_of(record);
        if !record.read_only {
            let mounts = provider.mounts();
            return Ok(mounts.is_none_or(|mounts| mounts.is_mounted(live_dir)));
        }
        let snapshot = self.snapshot_of(record.origin)?;
        let views = provider.views();
        Ok(views.shows(live_dir, origin(record, &snapshot)))
    }

    /// Returns the directory in which the files are visible.
    pub(super) fn files_of(&self, record: &Record, live_dir: &Path) -> PathBuf {
        let provider = self.provider_of(record);
        match record.read_only {
            true => provider.views().path(live_dir),
            false => provider.files(live_dir),
        }
    }

    /// Locks the directory of a workspace without reading its record.
    pub(super) fn lock_live_dir(&self, id: &WorkspaceId) -> Result<LockedWorkspace> {
        let live_dir = self.live_dir(id);
        let path = live_dir.join(LOCK);
        let lock = File::open(&path).map_err(Error::io("open", &live_dir))?;
        match lock.try_lock() {
            // The workspace was removed after the file was opened, and perhaps
            // created again: this lock protects nothing.
            Ok(()) if !lock::is_at(&lock, &path) => Err(Error::Busy(id.clone())),
            Ok(()) => Ok(LockedWorkspace::new(live_dir, lock)),
            Err(TryLockError::WouldBlock) => Err(Error::Busy(id.clone())),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &live_dir)(source)),
        }
    }

    /// Like [`Self::lock_live_dir`]; `None` if the directory does not exist.
    pub(super) fn lock_if_present(&self, id: &WorkspaceId) -> Result<Option<LockedWorkspace>> {
        match self.lock_live_dir(id) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            locked => locked.map(Some),
        }
    }
}
