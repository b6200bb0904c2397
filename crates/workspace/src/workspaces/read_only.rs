//! Read-only workspaces: creates them, and moves them to newer snapshots.

use std::path::{Path, PathBuf};

use elevo_core::Timestamp;
use elevo_engine::Progress;
use elevo_objects::SnapshotId;

use super::locked::LockedWorkspace;
use super::{Workspaces, origin};
use crate::error::{Error, Result};
use crate::record::Record;
use elevo_core::WorkspaceId;

/// A read-only workspace that is about to be bound into a container. The
/// workspace is locked until this is dropped or passed to [`Workspaces::show`].
#[derive(Debug)]
pub struct Binding {
    source: PathBuf,
    record: Record,
    locked: LockedWorkspace,
}

impl Binding {
    /// The directory to bind, with the propagation `rslave`. It is empty until
    /// [`Workspaces::show`] is called.
    pub fn source(&self) -> &Path {
        &self.source
    }
}

impl Workspaces {
    /// Creates a workspace that shows a snapshot and is read-only except for
    /// its home. Returns its directory.
    ///
    /// With overlays it costs one mount, and all readers of a snapshot share
    /// its data. The `limit` applies to the home.
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
        self.create_workspace(record, None, progress)
    }

    /// Makes a read-only workspace show another snapshot, which becomes its
    /// base. Its path stays the same.
    ///
    /// Every path that is opened from then on leads to the new snapshot; the
    /// switch is atomic. Open files and directories stay as they were, also for
    /// `openat` relative to them, until they are closed; without overlays,
    /// until the workspace has moved on twice. A process whose working
    /// directory is there has it open, and must change into it again.
    ///
    /// The directory is never empty, except before Linux 6.5, where it is empty
    /// between two system calls. Containers that use [`Self::bind`] see the
    /// same.
    ///
    /// If this is killed, the workspace shows either snapshot, and the new one
    /// from the next operation on it or the next opening of the workspaces. It
    /// never goes back.
    pub fn follow(
        &self,
        id: &WorkspaceId,
        snapshot: SnapshotId,
        progress: &Progress,
    ) -> Result<()> {
        let (record, locked) = self.lock(id)?;
        if !record.read_only {
            return Err(Error::Writable(id.clone()));
        }
        if record.base == snapshot {
            return Ok(());
        }
        // Without this lock, `tidy` could delete the prepared view, since no
        // record has its origin yet.
        let _shared = self.lock_shared_data()?;
        let followed = Record {
            origin: snapshot,
            base: snapshot,
            ..record
        };
        let (_guard, target) = self.guarded_snapshot(snapshot)?;
        let views = self.provider_of(&followed).views();
        let origin = origin(&followed, &target);
        views.prepare(&locked.live_dir, origin, progress)?;
        // Recorded before it is visible: after a kill, readers must not go back
        // to the old snapshot.
        self.registry.lock()?.set(followed.clone())?;
        views.show(&locked.live_dir, origin)
    }

    /// Whether containers can see the workspace follow snapshots: it is
    /// read-only, and this process can mount. Use [`Self::bind`] to give it to a
    /// container. Bind any other workspace by its [`Self::path`], without
    /// propagation; in the container, a read-only one then keeps the snapshot
    /// that it shows when the container starts.
    pub fn follows_in_containers(&self, id: &WorkspaceId) -> Result<bool> {
        let record = self.live_record(id)?;
        if !record.read_only {
            return Ok(false);
        }
        let bare = self.provider_of(&record).views().bare(&self.live_dir(id));
        Ok(bare?.is_some())
    }

    /// Prepares to give a workspace to a container so that the container sees
    /// the snapshots that the workspace follows.
    ///
    /// Bind the source of the result, start the container, and call
    /// [`Self::show`]. Until then the container sees an empty directory,
    /// because a container receives only mounts that are made after its start.
    /// Do the same each time the container is restarted, and again for running
    /// containers if this process was killed in between.
    pub fn bind(&self, id: &WorkspaceId) -> Result<Binding> {
        let (record, locked) = self.lock(id)?;
        if !record.read_only {
            return Err(Error::Writable(id.clone()));
        }
        let source = self.provider_of(&record).views().bare(&locked.live_dir)?;
        let source = source.ok_or_else(|| Error::CannotFollow(id.clone()))?;
        Ok(Binding {
            source,
            record,
            locked,
        })
    }

    /// Shows the files of a workspace in the containers that it was bound into.
    /// Other readers are not affected.
    pub fn show(&self, bound: Binding) -> Result<()> {
        let Binding { record, locked, .. } = bound;
        let snapshot = self.snapshot_of(record.origin)?;
        let views = self.provider_of(&record).views();
        views.show(&locked.live_dir, origin(&record, &snapshot))
    }
}
