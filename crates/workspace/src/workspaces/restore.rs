//! Other snapshots in workspaces that are there.

use std::io;

use elevo_engine::{
    CheckoutOptions, CheckoutReport, Error as EngineError, Present, Progress, checkout,
};
use elevo_objects::{Snapshot, SnapshotId};

use super::places::Held;
use super::{Workspaces, origin};
use crate::error::{Error, Result};
use crate::freeze::{Freeze, stop};
use crate::id::WorkspaceId;
use crate::record::Record;

/// How often a workspace that seems full is tried again.
const ATTEMPTS: usize = 16;

impl Workspaces {
    /// Makes a workspace hold another snapshot, which becomes its base. What
    /// was changed in it and not snapshotted is lost. Its home stays as it is,
    /// and so does what snapshots don't keep (sockets, pipes) where nothing
    /// takes its place.
    ///
    /// The directory stays the same one, mounted or open wherever it is: only
    /// what differs is written, with the present time, so that it is rebuilt
    /// by whatever looks at times. (A workspace with nothing in it gets the
    /// times of the snapshot.) The writers are always stopped meanwhile. If it
    /// fails or is killed on the way, the workspace holds some of both and has
    /// its old base, and [`Record::unfinished`] is the snapshot; restore it
    /// again.
    pub fn restore(
        &self,
        id: &WorkspaceId,
        snapshot: SnapshotId,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<CheckoutReport> {
        let (record, held) = self.hold(id)?;
        if record.read_only {
            return Err(Error::ReadOnly(id.clone()));
        }
        let _thaw = stop(id, freeze)?;
        self.bring(record, &held, snapshot, false, progress)
    }

    /// Makes a workspace hold another snapshot. If what it holds is known to
    /// be its base, paths that are not as there are refused.
    pub(super) fn bring(
        &self,
        record: Record,
        held: &Held,
        snapshot: SnapshotId,
        is_known: bool,
        progress: &Progress,
    ) -> Result<CheckoutReport> {
        if !self.provider_of(&record).is_attached(&held.place) {
            return Err(Error::Private(record.id));
        }
        let (_held, target) = self.held_snapshot(snapshot)?;
        let known = match is_known {
            true => Some(self.snapshot_of(record.base)?),
            false => None,
        };
        let begun = Record {
            unfinished: Some(snapshot),
            ..record.clone()
        };
        self.registry.lock()?.set(begun.clone())?;
        let mut attempts = 0;
        let report = loop {
            attempts += 1;
            let known = known.as_ref().filter(|_| attempts == 1);
            match self.write_differences(&begun, held, &target, known, progress) {
                // What was removed may count until the file system commits.
                Err(error) if is_full(&error) && attempts < ATTEMPTS => {
                    if !self.provider_of(&begun).reclaim(&held.place)? {
                        return Err(error);
                    }
                }
                Err(error) if is_refused(&error) && !progress.has_changed() => {
                    self.registry.lock()?.set(record)?;
                    return Err(error);
                }
                done => break done?,
            }
        };
        let brought = Record {
            base: snapshot,
            unfinished: None,
            ..begun
        };
        self.registry.lock()?.set(brought)?;
        Ok(report)
    }

    fn write_differences(
        &self,
        record: &Record,
        held: &Held,
        target: &Snapshot,
        known: Option<&Snapshot>,
        progress: &Progress,
    ) -> Result<CheckoutReport> {
        let provider = self.provider_of(record);
        let present = match known {
            Some(known) => Present::Recorded(known.clone()),
            None => {
                let made_from = self.snapshot_of(record.origin)?;
                let origin = origin(record, &made_from);
                let (tree, view) = provider.look(&held.place, origin, progress)?;
                Present::Found { tree, view }
            }
        };
        let options = CheckoutOptions {
            threads: self.threads,
            leave_out: Vec::new(),
            ignoring: None,
            force: known.is_none(),
            seed: None,
            owner: record.owner,
        };
        let files = provider.files(&held.place);
        let repository = &self.repository;
        let report = checkout(repository, target, &files, &present, &options, progress)?;
        Ok(report)
    }
}

/// Whether something is where nothing else may be lost.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Engine(EngineError::InTheWay { .. }))
}

fn is_full(error: &Error) -> bool {
    let Error::Engine(EngineError::Io { source, .. }) = error else {
        return false;
    };
    matches!(
        source.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
