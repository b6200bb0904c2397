//! [`WorkspaceProvider`]: creates the directory of a workspace. There is one
//! module for each implementation.

mod capabilities;
mod full;
mod kind;
#[cfg(target_os = "linux")]
mod layers;
#[cfg(target_os = "linux")]
mod overlay;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod served;
#[cfg(target_os = "linux")]
mod shared_views;
#[cfg(target_os = "linux")]
mod view_mounts;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use elevo_engine::{CommitInfo, Imported, Loss, NewStatCache, Owner, Progress, Repository};
use elevo_objects::{Snapshot, SnapshotId, Tree};
use futures::executor::block_on;

use crate::error::Result;

pub use capabilities::{AtomicForks, Limits, Mounts, Private, Views, Volume};
pub use full::FullProvider;
pub use kind::ProviderKind;
#[cfg(target_os = "linux")]
pub use overlay::OverlayProvider;
#[cfg(target_os = "linux")]
pub(crate) use overlay::{OverlayOptions, mount_overlay, overlay_options};
#[cfg(target_os = "linux")]
pub(crate) use pool::{erase_pool, looks_stuck};
#[cfg(target_os = "linux")]
pub use pool::{is_pool_stuck, remount_pool};
#[cfg(target_os = "linux")]
pub(crate) use view_mounts::ViewMounts;

/// Creates, reads and deletes the files of workspaces. A `live_dir` is the
/// directory `live/ID` of one workspace. Only one caller at a time works on it.
///
/// The methods up to [`tidy`](Self::tidy) are the core, which works for every
/// workspace. The methods after it return capabilities: the [views](Views) that
/// every provider has, and others that are `None` if the provider, or the
/// workspace in `live_dir`, does not have them.
///
/// 1. After [`create`](Self::create) and [`fork`](Self::fork), the directory
///    [`files`](Self::files) holds exactly the snapshot, modification times
///    included. Every process sees it, unless the workspace is
///    [private](Private). All files belong to the origin's owner, if it has
///    one, and otherwise to the caller. Writes there are visible nowhere else,
///    and writes elsewhere are not visible there.
/// 2. [`read`](Self::read) and [`scan`](Self::scan) see the exact state if no
///    process writes at the same time. A file that is written during the read
///    is stored as it is found; all others are exact.
/// 3. They read the content only of files that changed since the last
///    [`Reading::commit`], or that cannot be distinguished from changed files.
/// 4. An agent can do nothing in `files` that makes a method read or write a
///    path outside of the workspace.
/// 5. [`release`](Self::release) undoes everything that outlives this process
///    and the directory. It accepts a workspace that is half created or half
///    released, and one of another provider.
/// 6. [`tidy`](Self::tidy) deletes nothing that a workspace with one of the
///    given origins needs.
pub trait WorkspaceProvider: fmt::Debug + Send + Sync {
    /// The kind of workspaces that this provider creates.
    fn kind(&self) -> ProviderKind;

    /// The directory that the agent sees. A read-only workspace is visible at
    /// [`Views::path`] instead.
    fn files(&self, live_dir: &Path) -> PathBuf;

    /// The agent's home: a directory next to `files`, under the same limit. The
    /// caller creates it.
    fn home(&self, live_dir: &Path) -> PathBuf;

    /// Creates the workspace in `live_dir`, which is empty. If the origin is
    /// read-only, creates a view. Fails if the origin has a limit that cannot
    /// be enforced.
    fn create(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()>;

    /// Creates a workspace in `live_dir`. Its origin was just read from the
    /// workspace in `from`, which has not been written to since.
    fn fork(
        &self,
        from: &Path,
        live_dir: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<()>;

    /// Reads the workspace into the store.
    fn read(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<Reading>;

    /// Finds the current files of the workspace, and stores nothing.
    fn scan(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<Scan>;

    /// Deletes and unmounts everything of the workspace that is outside of
    /// `live_dir` or mounted in it. The caller deletes `live_dir` afterwards.
    fn release(&self, live_dir: &Path) -> Result<()>;

    /// Deletes shared data that no workspace with one of these origins needs,
    /// if there is more of it than the provider keeps for later.
    fn tidy(&self, origins: &[Origin<'_>]) -> Result<()>;

    /// The views of read-only workspaces.
    fn views(&self) -> &dyn Views;

    /// Mounts workspaces; `None` if their files are ordinary directories.
    fn mounts(&self) -> Option<&dyn Mounts>;

    /// Lets processes into private workspaces; `None` if every process sees the
    /// workspaces.
    fn private(&self) -> Option<&dyn Private>;

    /// Forks the workspace in `live_dir` at one moment, if that is possible.
    fn atomic_forks<'a>(&'a self, live_dir: &'a Path) -> Option<Box<dyn AtomicForks + 'a>>;

    /// Limits the size of the workspace in `live_dir`, if that is possible.
    fn limits<'a>(&'a self, live_dir: &'a Path) -> Option<Box<dyn Limits + 'a>>;

    /// The volume that holds the changes of all workspaces, if there is one.
    fn volume(&self) -> Option<&dyn Volume>;
}

/// Shows snapshots as directories without writing them out.
pub trait LazyServer: fmt::Debug + Send + Sync {
    /// Mounts a snapshot on the directory `at`, where nothing is mounted. When
    /// this returns, the mount is complete and read-only, and its files belong
    /// to `owner`, or to the caller if there is none. The mount stays until it
    /// is unmounted. If the process that serves the mount dies, accesses to its
    /// files fail.
    fn serve(&self, snapshot: SnapshotId, at: &Path, owner: Option<Owner>) -> io::Result<()>;
}

/// A server that rejects every snapshot.
#[derive(Clone, Copy, Debug)]
pub struct NoServer;

impl LazyServer for NoServer {
    fn serve(&self, _: SnapshotId, _: &Path, _: Option<Owner>) -> io::Result<()> {
        Err(io::Error::other(
            "no server for lazy snapshots is configured",
        ))
    }
}

/// The snapshot that a workspace is created from, and the workspace's
/// properties.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The id of the snapshot.
    pub id: SnapshotId,
    /// The snapshot itself.
    pub snapshot: &'a Snapshot,
    /// Maximum bytes of changes; rejected by providers that cannot enforce it.
    pub limit: Option<u64>,
    /// The owner of the files, if not the user who creates them.
    pub owner: Option<Owner>,
    /// Whether the workspace is read-only.
    pub read_only: bool,
}

/// Returns the id of the workspace in `live_dir`, which is named after it.
#[cfg(target_os = "linux")]
fn workspace_id(live_dir: &Path) -> &str {
    let name = live_dir.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

/// The current files of a workspace, which are not stored.
#[derive(Debug)]
pub struct Scan {
    /// The tree of the files.
    pub tree: Tree,
    /// A repository that has the directories of the tree, but not the contents
    /// of changed files.
    pub view: Repository,
}

/// The content of a workspace, read into the store.
#[derive(Debug)]
pub struct Reading {
    pub(crate) imported: Imported,
    pub(crate) cache: NewStatCache,
}

impl Reading {
    /// Returns the losses: properties of files that a snapshot does not keep.
    /// Each kind is listed once.
    pub fn losses(&self) -> &[Loss] {
        &self.imported.losses
    }

    /// Commits the content as a snapshot; durable when this returns.
    pub fn commit(self, repository: &Repository, info: CommitInfo) -> Result<SnapshotId> {
        let id = block_on(self.imported.commit(repository, info))?;
        // An incomplete cache only makes the next read slower.
        let _ = self.cache.finish(id);
        Ok(id)
    }

    /// Only saves the stat cache, for content that is already stored as this
    /// snapshot.
    pub fn keep(self, id: SnapshotId) {
        let _ = self.cache.finish(id);
    }
}
