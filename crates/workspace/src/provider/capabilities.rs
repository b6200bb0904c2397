//! The capabilities of a [`WorkspaceProvider`](super::WorkspaceProvider). A
//! caller that has one of these may call all its methods: a provider that lacks
//! a capability does not return it.

use std::fs::File;
use std::path::{Path, PathBuf};

use elevo_engine::Progress;

use super::Origin;
use crate::error::Result;

/// Shows snapshots to the readers of read-only workspaces.
///
/// 1. A workspace with a read-only origin is visible at [`path`](Self::path).
///    Writes there fail. (Where the view is not a mount, its creator could
///    change the permissions.)
/// 2. After [`show`](Self::show), every path that is opened there leads to the
///    origin. Files opened earlier stay as they were until they are closed:
///    with overlays always; with copies and clones until the next
///    [`prepare`](Self::prepare) but one.
/// 3. A container that was started with [`bare`](Self::bare) bound into it,
///    with the propagation `rslave`, sees the same from the next
///    [`show`](Self::show) on.
/// 4. [`ensure_shown`](Self::ensure_shown) repairs a view that a restart of the
///    machine, or a kill during [`show`](Self::show), has left in any state.
pub trait Views {
    /// The directory in which readers see a workspace.
    fn path(&self, live_dir: &Path) -> PathBuf;

    /// Prepares to show the origin: does everything that can take long or fail.
    fn prepare(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()>;

    /// Switches the view to the origin. [`prepare`](Self::prepare) must have
    /// been called for the origin, and [`tidy`](super::WorkspaceProvider::tidy)
    /// must not have been called since then.
    fn show(&self, live_dir: &Path, origin: Origin<'_>) -> Result<()>;

    /// Whether the view shows the origin.
    fn shows(&self, live_dir: &Path, origin: Origin<'_>) -> bool;

    /// Prepares the origin, and switches the view to it unless the view already
    /// shows it.
    fn ensure_shown(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()>;

    /// The directory that the view is mounted on, without the mount; `None` if
    /// the view is not a mount.
    fn bare(&self, live_dir: &Path) -> Result<Option<PathBuf>>;
}

/// Mounts workspaces whose files are a mount, which is lost when the machine
/// restarts.
///
/// 1. After [`mount`](Self::mount), `files` holds what it held before the mount
///    was lost. A mount whose server has died is replaced.
/// 2. A [private](super::Private) workspace is mounted only if this process
///    [can](super::Private::can_mount) mount it; otherwise its directories are
///    created, for a process that enters it.
pub trait Mounts {
    /// Whether this process sees the files.
    fn is_mounted(&self, live_dir: &Path) -> bool;

    /// Mounts a workspace that is not mounted.
    fn mount(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()>;
}

/// Lets processes into workspaces that only the processes inside see.
///
/// 1. A process that uses an [`entrance`](Self::entrance) sees the same files
///    as the processes that are already inside.
/// 2. While the lock of [`lock_entrance`](Self::lock_entrance) is held, no
///    process enters: if [`users`](Self::users) is empty, it stays empty.
pub trait Private {
    /// Whether this process can mount the workspace for itself, as root can
    /// while no process is inside.
    fn can_mount(&self, live_dir: &Path) -> Result<bool>;

    /// Returns how a process enters the workspace; `None` if this process sees
    /// the files or can mount them, so that it need not enter.
    #[cfg(target_os = "linux")]
    fn entrance(
        &self,
        live_dir: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<Option<crate::Entrance>>;

    /// Waits for the lock that a process holds while it enters.
    fn lock_entrance(&self, live_dir: &Path) -> Result<File>;

    /// Returns some of the processes that have entered the workspace. The list
    /// is empty only if no process has.
    fn users(&self, live_dir: &Path) -> Result<Vec<u32>>;
}

/// Forks one workspace as it is at one moment, even while processes write.
///
/// 1. All new workspaces have the state of the same moment, home included.
/// 2. [`read`](super::WorkspaceProvider::read) also sees the state of one
///    moment of a workspace that has this capability.
pub trait AtomicForks {
    /// Creates a workspace in each of `live_dirs`, which are empty, with the
    /// origin of the forked workspace.
    fn fork_into(&self, live_dirs: &[&Path], origin: Origin<'_>, progress: &Progress)
    -> Result<()>;
}

/// Limits the size of one workspace: of its changes and its home.
///
/// 1. A write beyond the limit fails as on a full disk, and affects no other
///    workspace.
/// 2. A workspace that has reached its limit can still be read.
pub trait Limits {
    /// Returns the bytes that count towards the limit; `None` if they are not
    /// counted because no workspace here ever had a limit.
    fn used(&self) -> Result<Option<u64>>;

    /// Changes the limit, also to less than is used. Nothing is deleted.
    fn set_limit(&self, bytes: u64) -> Result<()>;

    /// Waits until deleted files no longer count towards the limit. Returns
    /// `false` if waiting cannot help.
    fn reclaim(&self) -> Result<bool>;
}

/// A volume that holds the changes of many workspaces.
///
/// 1. After [`sync`](Self::sync), everything that was written before counts
///    towards the limits.
/// 2. [`interrupted_reads`](Self::interrupted_reads) finds every read that a
///    killed process has left, and perhaps reads in progress.
pub trait Volume {
    /// Writes everything to the volume.
    fn sync(&self) -> Result<()>;

    /// Returns the space of deleted workspaces to the disk below the volume, if
    /// that does not happen by itself.
    fn trim(&self) -> Result<()>;

    /// Returns the ids of the workspaces of which a read is in progress or was
    /// interrupted.
    fn interrupted_reads(&self) -> Result<Vec<String>>;

    /// Deletes the remains of an interrupted read, if there are any. No read of
    /// this workspace is in progress.
    fn delete_interrupted_read(&self, id: &str) -> Result<()>;
}
