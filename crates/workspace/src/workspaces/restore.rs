//! Replaces the files of existing workspaces with those of another snapshot.

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
use crate::provider::Scan;
use crate::record::Record;

/// Maximum attempts to write to a workspace that reports a full disk.
const ATTEMPTS: usize = 16;

impl Workspaces {
    /// Writes another snapshot into a workspace and makes it the base. Changes
    /// that are in no snapshot are lost. The home stays, and so do files that
    /// snapshots do not keep (sockets, pipes), unless a file of the snapshot
    /// takes their place.
    ///
    /// The directory itself stays, so mounts and open descriptors remain valid.
    /// Only the differences are written, with the current time, so that build
    /// tools that compare times notice them. (An empty workspace gets the times
    /// of the snapshot.) The writers are always paused. If this fails or is
    /// killed, the workspace holds some files of both and keeps its old base,
    /// and [`Record::unfinished`] is the snapshot; restore it again.
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

    /// Writes another snapshot into a workspace. If `is_known`, the workspace
    /// is expected to hold its base, and a path that differs from it is an
    /// error.
    pub(super) fn bring(
        &self,
        record: Record,
        held: &Held,
        snapshot: SnapshotId,
        is_known: bool,
        progress: &Progress,
    ) -> Result<CheckoutReport> {
        if !self.is_attached(&record, &held.place)? {
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
                // Deleted files may count until the file system commits.
                Err(error) if is_full(&error) && attempts < ATTEMPTS => {
                    let limits = self.provider_of(&begun).limits(&held.place);
                    if !limits.map_or(Ok(false), |limits| limits.reclaim())? {
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
                let Scan { tree, view } = provider.scan(&held.place, origin, progress)?;
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

/// Whether the checkout was rejected because it would overwrite an unexpected
/// path.
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
