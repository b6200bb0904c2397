//! What others have changed, into a workspace that is being worked in.

use elevo_engine::{CheckoutReport, CommitInfo, Progress};
use elevo_objects::SnapshotId;

use super::{Snapshotted, Workspaces};
use crate::error::Error;
use crate::freeze::{Freeze, stop};
use crate::id::WorkspaceId;

/// What a refresh did.
#[derive(Clone, Debug)]
pub struct Refreshed {
    /// What was there before.
    pub taken: Snapshotted,
    /// What is there now, and what was written for it; `None` if nothing was.
    pub written: Option<(SnapshotId, CheckoutReport)>,
}

impl Workspaces {
    /// Takes a snapshot of a workspace, asks `decide` which snapshot it should
    /// hold instead, given that one, and makes it so. Either becomes its base
    /// once it is what the directory holds: first the one that was taken, as by
    /// [`Self::snapshot`], then the one that was decided.
    ///
    /// Only what differs between the two is written, into the directory as it
    /// is mounted, with the present time. Whatever else is there stays as it
    /// is, its home too. A path that is not as the snapshot has it, which
    /// nobody holds still or no snapshot keeps, is in the way: nothing is
    /// written then.
    ///
    /// The writers are held still from before the snapshot until all is
    /// written, on every provider: with a pool the snapshot is of one moment
    /// without that, but what is written after that moment would be
    /// overwritten. So they see all of it at once. A file is never changed in
    /// place: whoever has it open goes on with the old one, which is in no
    /// directory any more, and has to open it again.
    ///
    /// If `decide` fails, the workspace is as it was and its base is the
    /// snapshot taken. If writing fails or is killed, the workspace holds some
    /// of both, perhaps with a file that is cut off; its base is the snapshot
    /// taken, which has all that was there, and [`crate::Record::unfinished`]
    /// is the one decided. Restore either.
    pub fn refresh<E: From<Error>>(
        &self,
        id: &WorkspaceId,
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
        decide: impl FnOnce(SnapshotId) -> std::result::Result<Option<SnapshotId>, E>,
    ) -> std::result::Result<Refreshed, E> {
        let (record, held) = self.hold(id)?;
        if record.read_only {
            return Err(Error::ReadOnly(id.clone()).into());
        }
        let _thaw = stop(id, freeze)?;
        let taken = self.snapshot_held(record, &held, info, progress)?;
        let decided = decide(taken.id)?;
        let written = match decided.filter(|decided| *decided != taken.id) {
            Some(target) => {
                let record = self.get(id)?;
                let report = self.bring(record, &held, target, true, progress)?;
                Some((target, report))
            }
            None => None,
        };
        Ok(Refreshed { taken, written })
    }
}
