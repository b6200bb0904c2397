//! Replaces the files of existing workspaces with those of another snapshot.

use std::io;

use elevo_engine::{
    CheckoutOptions, CheckoutReport, Error as EngineError, ExistingContent, Progress, checkout,
};
use elevo_objects::{Snapshot, SnapshotId};

use super::locked::LockedWorkspace;
use super::{Workspaces, origin};
use crate::error::{Error, Result};
use crate::freeze::{Freeze, pause};
use crate::provider::Scan;
use crate::record::Record;
use elevo_core::WorkspaceId;

/// Maximum attempts to write to a workspace that reports a full disk.
const ATTEMPTS: usize = 16;

/// The treatment of changes that are in no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsaved {
    /// They are lost.
    Overwrite,
    /// A changed path that would be written is an error, and nothing is
    /// written.
    Reject,
}

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
        let (record, locked) = self.lock(id)?;
        if record.read_only {
            return Err(Error::ReadOnly(id.clone()));
        }
        let _thaw = pause(id, freeze)?;
        self.write_snapshot(record, &locked, snapshot, Unsaved::Overwrite, progress)
    }

    /// Writes another snapshot into a workspace, and makes it the base.
    pub(super) fn write_snapshot(
        &self,
        record: Record,
        locked: &LockedWorkspace,
        snapshot: SnapshotId,
        unsaved: Unsaved,
        progress: &Progress,
    ) -> Result<CheckoutReport> {
        if !self.is_attached(&record, &locked.live_dir)? {
            return Err(Error::Private(record.id));
        }
        let (_guard, target) = self.guarded_snapshot(snapshot)?;
        let known = match unsaved {
            Unsaved::Reject => Some(self.snapshot_of(record.base)?),
            Unsaved::Overwrite => None,
        };
        // Recorded first: after a kill, the record shows that the directory has
        // files of both snapshots.
        let begun = Record {
            unfinished: Some(snapshot),
            ..record.clone()
        };
        self.registry.lock()?.set(begun.clone())?;
        let mut attempts = 0;
        let report = loop {
            attempts += 1;
            // A later attempt finds the files of the first one, and so must
            // compare with the directory instead of the base.
            let known = known.as_ref().filter(|_| attempts == 1);
            match self.write_differences(&begun, locked, &target, known, progress) {
                // Deleted files may count towards the limit until the file
                // system commits.
                Err(error) if is_full(&error) && attempts < ATTEMPTS => {
                    let limits = self.provider_of(&begun).limits(&locked.live_dir);
                    if !limits.map_or(Ok(false), |limits| limits.reclaim())? {
                        return Err(error);
                    }
                }
                // Nothing was written, so the workspace is not unfinished.
                Err(error) if is_rejected(&error) && !progress.has_changed() => {
                    self.registry.lock()?.set(record)?;
                    return Err(error);
                }
                done => break done?,
            }
        };
        let written = Record {
            base: snapshot,
            unfinished: None,
            ..begun
        };
        self.registry.lock()?.set(written)?;
        Ok(report)
    }

    fn write_differences(
        &self,
        record: &Record,
        locked: &LockedWorkspace,
        target: &Snapshot,
        known: Option<&Snapshot>,
        progress: &Progress,
    ) -> Result<CheckoutReport> {
        let provider = self.provider_of(record);
        let present = match known {
            Some(known) => ExistingContent::Recorded(known.clone()),
            None => {
                let snapshot = self.snapshot_of(record.origin)?;
                let origin = origin(record, &snapshot);
                let Scan { tree, view } = provider.scan(&locked.live_dir, origin, progress)?;
                ExistingContent::Found { tree, view }
            }
        };
        let options = CheckoutOptions {
            threads: self.threads,
            leave_out: Vec::new(),
            ignoring: None,
            force: known.is_none(),
            clone_source: None,
            owner: record.owner,
        };
        let files = provider.files(&locked.live_dir);
        let repository = &self.repository;
        let report = checkout(repository, target, &files, &present, &options, progress)?;
        Ok(report)
    }
}

/// Whether the checkout was rejected because it would overwrite an unexpected
/// path.
fn is_rejected(error: &Error) -> bool {
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
