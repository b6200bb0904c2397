//! Workspaces that are only read: making them, and moving them on.

use std::path::{Path, PathBuf};

use elevo_core::Timestamp;
use elevo_engine::Progress;
use elevo_objects::SnapshotId;

use super::places::Held;
use super::{Workspaces, origin};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::record::Record;

/// How a container is to be given a workspace that follows snapshots. Nobody
/// else works on the workspace meanwhile.
#[derive(Debug)]
pub struct Binding {
    source: PathBuf,
    record: Record,
    held: Held,
}

impl Binding {
    /// The directory to bind, with the propagation `rslave`. It is empty:
    /// files come with [`Workspaces::show`].
    pub fn source(&self) -> &Path {
        &self.source
    }
}

impl Workspaces {
    /// Makes a workspace that shows a snapshot, and that only its home can be
    /// written in. Returns its directory.
    ///
    /// With overlays it costs a mount, whoever else reads the same. What
    /// `limit` is about is its home.
    pub fn create_read_only(
        &self,
        id: &WorkspaceId,
        base: SnapshotId,
        created: Timestamp,
        limit: Option<u64>,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let record = Record {
            read_only: true,
            ..self.new_record(id, base, created, limit)
        };
        self.make(record, None, progress)
    }

    /// Lets a read-only workspace show another snapshot, which becomes its
    /// base. Its path stays the same.
    ///
    /// Whoever opens a path there anew finds the new snapshot, all of it at
    /// once. Files and directories that are open stay as they were, also for
    /// what is opened from there (`openat`), until they are closed; without
    /// overlays, until the workspace has moved on twice. A process whose
    /// working directory is there has it open: it has to enter it again.
    ///
    /// At no moment is there nothing to see; only before Linux 6.5 the
    /// directory is empty between two system calls. Containers that were given
    /// it by [`Self::bind`] see the same.
    ///
    /// If it is killed on the way, the workspace shows one or the other, and
    /// the new one when it is next worked on or when workspaces are next
    /// opened. It never goes back.
    pub fn follow(
        &self,
        id: &WorkspaceId,
        snapshot: SnapshotId,
        progress: &Progress,
    ) -> Result<()> {
        let (record, held) = self.hold(id)?;
        if !record.read_only {
            return Err(Error::Writable(id.clone()));
        }
        if record.base == snapshot {
            return Ok(());
        }
        // So that nothing which is prepared is tidied away.
        let _making = self.making()?;
        let followed = Record {
            origin: snapshot,
            base: snapshot,
            ..record
        };
        let (_held, target) = self.held_snapshot(snapshot)?;
        let (provider, origin) = (self.provider_of(&followed), origin(&followed, &target));
        provider.prepare(&held.place, origin, progress)?;
        // Before anybody can see it: what was seen once is so for good.
        self.registry.lock()?.set(followed.clone())?;
        provider.show(&held.place, origin)
    }

    /// Whether containers can see what a workspace follows, and so have to be
    /// given it by [`Self::bind`]: it is read-only, and mounts can be made
    /// here. Any other workspace is bound as its [`Self::path`] is, without
    /// propagation; a read-only one then stays, for that container, at the
    /// snapshot that it shows when the container is started.
    pub fn shares(&self, id: &WorkspaceId) -> Result<bool> {
        let record = self.live(id)?;
        if !record.read_only {
            return Ok(false);
        }
        let bare = self.provider_of(&record).bare(&self.place(id));
        Ok(bare?.is_some())
    }

    /// How to give a container a workspace so that it sees what that follows.
    ///
    /// Bind the source that this returns, start the container, and call
    /// [`Self::show`]: before, the container sees an empty directory.
    /// Containers get mounts as events, and so only those of later. It is the
    /// same each time a container is started again; and after this process was
    /// killed in between, for the containers that run.
    pub fn bind(&self, id: &WorkspaceId) -> Result<Binding> {
        let (record, held) = self.hold(id)?;
        if !record.read_only {
            return Err(Error::Writable(id.clone()));
        }
        let source = self.provider_of(&record).bare(&held.place)?;
        let source = source.ok_or_else(|| Error::CannotFollow(id.clone()))?;
        Ok(Binding {
            source,
            record,
            held,
        })
    }

    /// Shows the files of a workspace in the containers that it was bound
    /// into. Others who read it notice nothing.
    pub fn show(&self, bound: Binding) -> Result<()> {
        let Binding { record, held, .. } = bound;
        let made_from = self.snapshot_of(record.origin)?;
        let provider = self.provider_of(&record);
        provider.show(&held.place, origin(&record, &made_from))
    }
}
