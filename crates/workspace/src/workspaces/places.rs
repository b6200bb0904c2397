//! The places of workspaces: creates them, and locks them against other
//! callers. A place without a record in the registry is half created or half
//! deleted; its lock shows whether a process still works on it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use elevo_engine::Progress;

use super::{Workspaces, origin};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::lock;
use crate::provider::Origin;
use crate::record::{Record, State};

/// A workspace that is locked by this caller.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) place: PathBuf,
    _lock: File,
}

pub(super) const LOCK: &str = "lock";

impl Workspaces {
    pub(super) fn place(&self, id: &WorkspaceId) -> PathBuf {
        self.root.join("live").join(id.as_str())
    }

    pub(super) fn live(&self, id: &WorkspaceId) -> Result<Record> {
        let record = self.get(id)?;
        match record.state {
            State::Live => Ok(record),
            State::Parked => Err(Error::Parked(id.clone())),
        }
    }

    /// Locks a workspace against other callers, and attaches it if it is not
    /// attached.
    pub(super) fn hold(&self, id: &WorkspaceId) -> Result<(Record, Held)> {
        self.live(id)?;
        let held = self.hold_place(id);
        // It may have been changed or removed before the lock was acquired.
        let record = self.live(id)?;
        let held = held?;
        if !self.is_attached(&record, &held.place)? && self.can_attach(&record, &held.place)? {
            self.attach(&record, &held.place)?;
        }
        Ok((record, held))
    }

    /// Makes the expected files visible.
    fn attach(&self, record: &Record, place: &Path) -> Result<()> {
        let provider = self.provider_of(record);
        let (made_from, progress) = (self.snapshot_of(record.origin)?, Progress::new());
        let origin = origin(record, &made_from);
        if record.read_only {
            return provider.views().ensure_shown(place, origin, &progress);
        }
        match provider.mounts() {
            Some(mounts) => mounts.mount(place, origin, &progress),
            None => Ok(()),
        }
    }

    /// Whether this process can make the files visible, instead of only
    /// entering a private workspace.
    pub(super) fn can_attach(&self, record: &Record, place: &Path) -> Result<bool> {
        let private = self.provider_of(record).private();
        private.map_or(Ok(true), |private| private.can_mount(place))
    }

    /// Whether the expected files are visible.
    pub(super) fn is_attached(&self, record: &Record, place: &Path) -> Result<bool> {
        let provider = self.provider_of(record);
        if !record.read_only {
            let mounts = provider.mounts();
            return Ok(mounts.is_none_or(|mounts| mounts.is_mounted(place)));
        }
        let made_from = self.snapshot_of(record.origin)?;
        let views = provider.views();
        Ok(views.shows(place, origin(record, &made_from)))
    }

    /// Returns the directory in which the files are visible.
    pub(super) fn files_of(&self, record: &Record, place: &Path) -> PathBuf {
        let provider = self.provider_of(record);
        match record.read_only {
            true => provider.views().path(place),
            false => provider.files(place),
        }
    }

    pub(super) fn hold_place(&self, id: &WorkspaceId) -> Result<Held> {
        let place = self.place(id);
        let path = place.join(LOCK);
        let lock = File::open(&path).map_err(Error::io("open", &place))?;
        match lock.try_lock() {
            // Otherwise it was removed, and perhaps created again.
            Ok(()) if !lock::is_at(&lock, &path) => Err(Error::Busy(id.clone())),
            Ok(()) => Ok(Held { place, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy(id.clone())),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &place)(source)),
        }
    }

    /// Like [`Self::hold_place`], for a place that may not exist.
    pub(super) fn hold_if_there(&self, id: &WorkspaceId) -> Result<Option<Held>> {
        match self.hold_place(id) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            held => held.map(Some),
        }
    }

    /// Creates a workspace. `before` is its record if it was parked.
    pub(super) fn make(
        &self,
        record: Record,
        before: Option<&Record>,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let place = self.make_place(&record.id, before)?;
        let provider = self.provider_of(&record);
        let (of, at) = (record.clone(), place.place.clone());
        self.fill(vec![(record, place)], |places, origin| {
            let home = before.map_or(Ok(None), |parked| self.stored_home(parked))?;
            places.iter().try_for_each(|place| {
                provider.create(place, origin, progress)?;
                self.make_home(provider, place, origin.owner, home.as_ref(), progress)
            })
        })?;
        Ok(self.files_of(&of, &at))
    }

    /// Creates workspaces with the same origin; all or none.
    pub(super) fn make_all(
        &self,
        records: Vec<Record>,
        fill: impl FnOnce(&[&Path], Origin<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut places = Vec::with_capacity(records.len());
        for record in records {
            match self.make_place(&record.id, None) {
                Ok(place) => places.push((record, place)),
                Err(error) => {
                    self.give_up(places)?;
                    return Err(error);
                }
            }
        }
        self.fill(places, fill)
    }

    /// Fills places, and then adds their records to the registry.
    fn fill(
        &self,
        places: Vec<(Record, Held)>,
        fill: impl FnOnce(&[&Path], Origin<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some((first, _)) = places.first() else {
            return Ok(());
        };
        let paths: Vec<_> = places
            .iter()
            .map(|(_, held)| held.place.as_path())
            .collect();
        let make = || {
            let _making = self.making()?;
            let (_held, made_from) = self.held_snapshot(first.origin)?;
            fill(&paths, origin(first, &made_from))?;
            let records = places.iter().map(|(record, _)| record.clone());
            self.registry.lock()?.set_all(records.collect())
        };
        let made = make();
        if made.is_err() {
            self.give_up(places)?;
        }
        made
    }

    fn give_up(&self, places: Vec<(Record, Held)>) -> Result<()> {
        for (_, held) in &places {
            self.throw(held)?;
        }
        drop(places);
        self.empty_trash()
    }

    fn make_place(&self, id: &WorkspaceId, before: Option<&Record>) -> Result<Held> {
        let registry = self.registry.lock()?;
        if registry.records().get(id) != before {
            return Err(Error::Exists(id.clone()));
        }
        let place = self.place(id);
        let make = || -> io::Result<File> {
            fs::create_dir(&place)?;
            let lock = File::create_new(place.join(LOCK))?;
            lock.try_lock()?;
            Ok(lock)
        };
        match make() {
            Ok(lock) => Ok(Held { place, _lock: lock }),
            // Another process is creating or deleting it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::Busy(id.clone()))
            }
            Err(error) => Err(Error::io("create", &place)(error)),
        }
    }
}
