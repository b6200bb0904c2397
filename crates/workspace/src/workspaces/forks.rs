//! Forks of workspaces.

use elevo_engine::{CommitInfo, Progress};

use super::places::Held;
use super::{Snapshotted, Workspaces};
use crate::error::Result;
use crate::freeze::{Freeze, stop};
use crate::id::WorkspaceId;
use crate::record::Record;

impl Workspaces {
    /// Creates a writable workspace for each of `into` with the current files
    /// of `id`, its home included. Either all are created or none.
    ///
    /// With a pool, the forks have the state of one moment and the base of
    /// `id`, and no snapshot is taken. Otherwise a snapshot is taken as by
    /// [`Self::snapshot`]; it is the base of all forks, and is returned.
    pub fn fork(
        &self,
        id: &WorkspaceId,
        into: &[WorkspaceId],
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Option<Snapshotted>> {
        let (record, held) = self.hold(id)?;
        let atomic = self.provider_of(&record).atomic_forks(&held.place);
        let Some(atomic) = atomic.filter(|_| !record.read_only) else {
            let _thaw = stop(id, freeze)?;
            let taken = self.fork_snapshot(record, &held, into, info, false, progress);
            return taken.map(Some);
        };
        // Nothing is frozen here: the pool copies the upper of one moment.
        let fork = |id| fork_of(&record, id, &info);
        self.make_all(into.iter().map(fork).collect(), |places, origin| {
            atomic.fork_into(places, origin, progress)
        })?;
        Ok(None)
    }

    /// Like [`Self::fork`], with read-only workspaces. A snapshot is taken as
    /// by [`Self::snapshot`], also with a pool, and the forks show it.
    pub fn fork_read_only(
        &self,
        id: &WorkspaceId,
        into: &[WorkspaceId],
        info: CommitInfo,
        freeze: &dyn Freeze,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let (record, held) = self.hold(id)?;
        let _thaw = stop(id, freeze)?;
        self.fork_snapshot(record, &held, into, info, true, progress)
    }

    fn fork_snapshot(
        &self,
        record: Record,
        held: &Held,
        into: &[WorkspaceId],
        info: CommitInfo,
        read_only: bool,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let provider = self.provider_of(&record);
        let taken = self.snapshot_held(record.clone(), held, info.clone(), progress)?;
        // Read once, while the callers keep the workspace frozen, so that all
        // forks have the same home and it fits the snapshot.
        let home = self.copy_of_home(&record, held, progress)?;
        let taken_record = Record {
            origin: taken.id,
            base: taken.id,
            read_only,
            ..record
        };
        let fork = |id| fork_of(&taken_record, id, &info);
        self.make_all(into.iter().map(fork).collect(), |places, origin| {
            places.iter().try_for_each(|place| {
                provider.fork(&held.place, place, origin, progress)?;
                self.make_home(provider, place, origin.owner, home.as_ref(), progress)
            })
        })?;
        Ok(taken)
    }
}

/// Returns the record of a fork of `of`.
fn fork_of(of: &Record, id: &WorkspaceId, info: &CommitInfo) -> Record {
    Record {
        id: id.clone(),
        created: info.created,
        home: None,
        unfinished: None,
        ..of.clone()
    }
}
