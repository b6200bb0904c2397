//! Refreshes: writes another snapshot into a workspace that is in use, and keeps
//! the changes in it.

use elevo_engine::{CheckoutReport, CommitInfo, Progress};
use elevo_objects::SnapshotId;

use super::restore::Unsaved;
use super::{Snapshotted, Workspaces};
use crate::error::Error;
use crate::freeze::{Freeze, pause};
use elevo_core::WorkspaceId;

/// The result of a refresh.
#[derive(Clone, Debug)]
pub struct Refreshed {
    /// The snapshot taken before the refresh.
    pub taken: Snapshotted,
    /// The new base and the report of its checkout; `None` if nothing was
    /// written.
    pub written: Option<(SnapshotId, CheckoutReport)>,
}

impl Workspaces {
    /// Takes a snapshot of a workspace, passes it to `decide`, which returns
    /// the snapshot that the workspace should hold instead, and writes that
    /// one. The base changes twice: first to the snapshot that was taken, as by
    /// [`Self::snapshot`], then, when all is written, to the one from `decide`.
    ///
    /// Only the differences between the two are written, into the mounted
    /// directory and with the current time. All other files stay as they are,
    /// and so does the home. If a path to be written differs from the snapshot
    /// taken, because a writer was not paused or because snapshots do not keep
    /// such files, nothing is written and the refresh fails.
    ///
    /// The writers are paused from before the snapshot until all is written, so
    /// they see all changes at once. This holds for every provider: with a pool
    /// the snapshot is of one moment anyway, but changes made after it would be
    /// overwritten. Files are replaced, never changed in place: a process with
    /// an open file keeps the old one, which has been unlinked, until it
    /// opens the path again.
    ///
    /// If `decide` fails, the workspace keeps its files, and its base is the
    /// snapshot taken. If writing fails or is killed, the workspace holds some
    /// files of both, perhaps one that is truncated. Its base is then the
    /// snapshot taken, which has all earlier files, and
    /// [`crate::Record::unfinished`] is the one from `decide`. Restore one of
    /// the two.
    pub fn refresh<E: From<Error>>(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
        decide: impl FnOnce(SnapshotId) -> std::result::Result<Option<SnapshotId>, E>,
    ) -> std::result::Result<Refreshed, E> {
        let (record, locked) = self.lock(id)?;
        if record.read_only {
            return Err(Error::ReadOnly(id.clone()).into());
        }
        let _thaw = pause(id, freeze)?;
        let taken = self.snapshot_locked(record, &locked, info, progress)?;
        let decided = decide(taken.id)?;
        let written = match decided.filter(|decided| *decided != taken.id) {
            Some(target) => {
                let record = self.get(id)?;
                let unsaved = Unsaved::Reject;
                let report = self.write_snapshot(record, &locked, target, unsaved, progress)?;
                Some((target, report))
            }
            None => None,
        };
        Ok(Refreshed { taken, written })
    }
}
