//! The places of workspaces: making them, and keeping others from working on
//! them. What is in a place that no line of the registry is about is half-made
//! or half-removed; its lock tells whether somebody is still at it.

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

/// A workspace that nobody else works on.
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

    /// Keeps everybody else from working on a workspace.
    pub(super) fn hold(&self, id: &WorkspaceId) -> Result<(Record, Held)> {
        self.live(id)?;
        let held = self.hold_place(id);
        // It may have changed, or gone, before it was held.
        let record = self.live(id)?;
        let held = held?;
        let provider = self.provider_of(&record);
        if !self.is_attached(&record, &held.place)? && provider.attaches(&held.place)? {
            let made_from = self.snapshot_of(record.origin)?;
            let origin = origin(&record, &made_from);
            provider.attach(&held.place, origin, &Progress::new())?;
        }
        Ok((record, held))
    }

    /// Whether what should be seen of a workspace is seen.
    pub(super) fn is_attached(&self, record: &Record, place: &Path) -> Result<bool> {
        let provider = self.provider_of(record);
        if !record.read_only {
            return Ok(provider.is_attached(place));
        }
        let made_from = self.snapshot_of(record.origin)?;
        Ok(provider.shows(place, origin(record, &made_from)))
    }

    /// The directory that is seen.
    pub(super) fn files_of(&self, record: &Record, place: &Path) -> PathBuf {
        let provider = self.provider_of(record);
        match record.read_only {
            true => provider.view(place),
            false => provider.files(place),
        }
    }

    pub(super) fn hold_place(&self, id: &WorkspaceId) -> Result<Held> {
        let place = self.place(id);
        let path = place.join(LOCK);
        let lock = File::open(&path).map_err(Error::io("open", &place))?;
        match lock.try_lock() {
            // Otherwise it was removed, and perhaps made again.
            Ok(()) if !lock::is_at(&lock, &path) => Err(Error::Busy(id.clone())),
            Ok(()) => Ok(Held { place, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy(id.clone())),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &place)(source)),
        }
    }

    /// The same for a place that may not be there.
    pub(super) fn hold_if_there(&self, id: &WorkspaceId) -> Result<Option<Held>> {
        match self.hold_place(id) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            held => held.map(Some),
        }
    }

    /// Makes a workspace. `before` is what is known of it, if it was parked.
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

    /// Makes workspaces of the same origin; all or none.
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

    /// Lets `fill` fill places, and then makes them known.
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
            // Being made by somebody else, or being thrown away.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::Busy(id.clone()))
            }
            Err(error) => Err(Error::io("make", &place)(error)),
        }
    }
}
