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
    /// its old base; restore it again.
    pub fn restore(
        &self,
        id: &WorkspaceId,
        snapshot: SnapshotId,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<CheckoutReport> {
        let (record, held) = self.hold(id)?;
        let target = self.snapshot_of(snapshot)?;
        let _thaw = stop(id, freeze)?;
        let mut attempts = 0;
        let report = loop {
            attempts += 1;
            match self.write_differences(&record, &held, &target, progress) {
                // What was removed may count until the file system commits.
                Err(error) if is_full(&error) && attempts < ATTEMPTS => {
                    if !self.provider_of(&record).reclaim(&held.place)? {
                        return Err(error);
                    }
                }
                done => break done?,
            }
        };
        let restored = Record {
            base: snapshot,
            ..record
        };
        self.registry.lock()?.set(restored)?;
        Ok(report)
    }

    fn write_differences(
        &self,
        record: &Record,
        held: &Held,
        target: &Snapshot,
        progress: &Progress,
    ) -> Result<CheckoutReport> {
        let made_from = self.snapshot_of(record.origin)?;
        let provider = self.provider_of(record);
        let (tree, view) = provider.look(&held.place, origin(record, &made_from), progress)?;
        let options = CheckoutOptions {
            threads: self.threads,
            leave_out: Vec::new(),
            force: true,
            seed: None,
            owner: record.owner,
        };
        let (files, present) = (provider.files(&held.place), Present::Found { tree, view });
        let repository = &self.repository;
        let report = checkout(repository, target, &files, &present, &options, progress)?;
        Ok(report)
    }
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
