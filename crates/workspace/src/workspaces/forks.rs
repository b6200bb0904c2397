//! Forks of workspaces.

use elevo_engine::{CommitInfo, Progress};

use super::locked::LockedWorkspace;
use super::{Snapshotted, Workspaces};
use crate::error::Result;
use crate::freeze::{Freeze, pause};
use crate::record::Record;
use elevo_core::WorkspaceId;

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
        let (record, locked) = self.lock(id)?;
        let atomic = self.provider_of(&record).atomic_forks(&locked.live_dir);
        // The files of a read-only workspace do not change, so they need no
        // atomic copy. A writable fork must not inherit `read_only` either.
        let Some(atomic) = atomic.filter(|_| !record.read_only) else {
            let _thaw = pause(id, freeze)?;
            let forks = Forks {
                ids: into,
                are_read_only: false,
            };
            let taken = self.fork_snapshot(record, &locked, forks, info, progress);
            return taken.map(Some);
        };
        // No pause: the copy has the state of one moment while writers run. The
        // forks keep the origin and the base of the workspace, since its
        // changes are in their uppers and in no snapshot.
        let fork = |id| fork_of(&record, id, &info);
        self.create_all(into.iter().map(fork).collect(), |live_dirs, origin| {
            atomic.fork_into(live_dirs, origin, progress)
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
        let (record, locked) = self.lock(id)?;
        let _thaw = pause(id, freeze)?;
        let forks = Forks {
            ids: into,
            are_read_only: true,
        };
        self.fork_snapshot(record, &locked, forks, info, progress)
    }

    /// Takes a snapshot of a workspace whose writers are paused, and creates
    /// forks from it.
    fn fork_snapshot(
        &self,
        record: Record,
        locked: &LockedWorkspace,
        forks: Forks<'_>,
        info: CommitInfo,
        progress: &Progress,
    ) -> Result<Snapshotted> {
        let provider = self.provider_of(&record);
        let taken = self.snapshot_locked(record.clone(), locked, info.clone(), progress)?;
        // Read once, while the writers are paused, so that all forks have the
        // same home, and the home matches the snapshot.
        let home = self.read_home(&record, locked, progress)?;
        let model = Record {
            origin: taken.id,
            base: taken.id,
            read_only: forks.are_read_only,
            ..record
        };
        let fork = |id| fork_of(&model, id, &info);
        let records = forks.ids.iter().map(fork).collect();
        self.create_all(records, |live_dirs, origin| {
            live_dirs.iter().try_for_each(|live_dir| {
                provider.fork(&locked.live_dir, live_dir, origin, progress)?;
                self.create_home(provider, live_dir, origin.owner, home.as_ref(), progress)
            })
        })?;
        Ok(taken)
    }
}

/// The workspaces that a fork creates.
#[derive(Clone, Copy)]
struct Forks<'a> {
    ids: &'a [WorkspaceId],
    are_read_only: bool,
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
