//! [`WorkspaceProvider`]: creates the directory of a workspace. There is one
//! module for each implementation.

mod full;
#[cfg(target_os = "linux")]
mod layers;
#[cfg(target_os = "linux")]
mod lazy;
#[cfg(target_os = "linux")]
mod overlay;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod readers;
#[cfg(target_os = "linux")]
mod views;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use elevo_engine::{CommitInfo, Imported, Loss, NewStatCache, Owner, Progress, Repository};
use elevo_objects::{Snapshot, SnapshotId, Tree};
use futures::executor::block_on;
use serde::{Deserialize, Serialize};

use crate::error::Result;

pub use full::FullProvider;
#[cfg(target_os = "linux")]
pub use overlay::OverlayProvider;
#[cfg(target_os = "linux")]
pub(crate) use overlay::{OverlayOptions, mount_overlay, overlay_options};
#[cfg(target_os = "linux")]
pub(crate) use pool::erase_pool;
pub(crate) use pool::looks_stuck;
pub use pool::{is_pool_stuck, remount_pool};

/// The ways to create a workspace. Unless one is requested, the first that
/// works is used. The private kinds after [`Copy`](Self::Copy) must be
/// requested, since other processes cannot see their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// An overlay mounted over layers that all workspaces share.
    Overlay,
    /// An overlay whose snapshot need not be written out before the first
    /// workspace is created: files are fetched when they are read.
    Lazy,
    /// Files that share their content with a base directory until they are
    /// written to.
    Reflink,
    /// A copy of every file.
    Copy,
    /// Like `Overlay`, for users who may not mount: only processes that
    /// [enter](crate::Entrance) the workspace see its files.
    Rootless,
    /// Like `Lazy`, for users who may not mount.
    RootlessLazy,
}

impl ProviderKind {
    /// All kinds, in order of preference.
    pub const ALL: [Self; 6] = [
        Self::Overlay,
        Self::Lazy,
        Self::Reflink,
        Self::Copy,
        Self::Rootless,
        Self::RootlessLazy,
    ];

    /// Whether only processes that enter such a workspace see its files.
    pub const fn is_private(self) -> bool {
        matches!(self, Self::Rootless | Self::RootlessLazy)
    }

    /// The name in settings, records and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Lazy => "lazy",
            Self::Reflink => "reflink",
            Self::Copy => "copy",
            Self::Rootless => "rootless",
            Self::RootlessLazy => "rootless-lazy",
        }
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ProviderKind {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(" or ");
            format!("`{text}` is not a provider; use {names}")
        })
    }
}

/// Creates, reads and deletes the files in the `place` of a workspace, a
/// directory that only one caller at a time works on.
///
/// 1. After [`create`](Self::create) and [`fork`](Self::fork), the directory
///    [`files`](Self::files) holds exactly the snapshot, modification times
///    included, for every process that [sees](Self::is_attached) it or has
///    [entered](Self::entrance) it. All files belong to the origin's owner, if
///    it has one, and otherwise to the caller. Writes there are visible nowhere
///    else, and writes elsewhere are not visible there.
/// 2. [`read`](Self::read) and [`look`](Self::look) see the exact state if no
///    process writes at the same time. A file that is written during the read
///    is stored as it is found; all others are exact.
/// 3. They read the content only of files that changed since the last
///    [`Reading::commit`], or that cannot be distinguished from changed files.
/// 4. Nothing an agent does in `files` makes a method touch a path outside.
/// 5. [`release`](Self::release) undoes everything that outlives this process
///    and the directory. It accepts a workspace that is half created or half
///    released.
/// 6. A workspace with a read-only origin is visible at [`view`](Self::view),
///    and only its creator can write there. After [`show`](Self::show), every
///    path that is opened there leads to the origin. Files opened earlier stay
///    as they were until they are closed: with overlays always; with copies and
///    clones until the next [`prepare`](Self::prepare) but one.
/// 7. A container that was started with [`bare`](Self::bare) bound into it,
///    with the propagation `rslave`, sees the same from the next
///    [`show`](Self::show) on.
pub trait WorkspaceProvider: fmt::Debug + Send + Sync {
    /// The kind of workspaces that this provider creates.
    fn kind(&self) -> ProviderKind;

    /// The directory that the agent sees.
    fn files(&self, place: &Path) -> PathBuf;

    /// The directory in which readers see a read-only workspace.
    fn view(&self, place: &Path) -> PathBuf;

    /// Prepares to show the origin: does everything that can take long or fail.
    fn prepare(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()>;

    /// Switches the view to the origin. [`prepare`](Self::prepare) must have
    /// been called for it, and [`tidy`](Self::tidy) not since.
    fn show(&self, place: &Path, origin: Origin<'_>) -> Result<()>;

    /// Whether the view shows the origin.
    fn shows(&self, place: &Path, origin: Origin<'_>) -> bool;

    /// The directory below the mount of the view; `None` if the view is not a
    /// mount.
    fn bare(&self, _place: &Path) -> Result<Option<PathBuf>> {
        Ok(None)
    }

    /// The agent's home: a directory next to `files`, under the same limit.
    fn home(&self, place: &Path) -> PathBuf {
        place.join("home")
    }

    /// Creates the workspace in `place`, which is empty; a view if the origin
    /// is read-only.
    fn create(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()>;

    /// Creates a workspace in `place`. Its origin was just read from the
    /// workspace in `from`, which has not been written to since.
    fn fork(
        &self,
        from: &Path,
        place: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<()>;

    /// Whether [`read`](Self::read) and [`fork_at_once`](Self::fork_at_once)
    /// see the state of one moment, even while processes write.
    fn is_atomic(&self, _place: &Path) -> bool {
        false
    }

    /// Creates a workspace in each of `places` with the state of `from` at one
    /// moment, home included, and with its origin. Called only if `from` is
    /// atomic.
    fn fork_at_once(
        &self,
        _from: &Path,
        _places: &[&Path],
        _origin: Origin<'_>,
        _progress: &Progress,
    ) -> Result<()> {
        unreachable!("called only if atomic")
    }

    /// Whether the agent can see the files. A workspace that is a mount loses
    /// it when the machine restarts.
    fn is_attached(&self, _place: &Path) -> bool {
        true
    }

    /// Makes the files visible to the agent again, unless they are visible only
    /// to processes that [enter](Self::entrance) the workspace. Switches a view
    /// that does not show its origin to it.
    fn attach(&self, _place: &Path, _origin: Origin<'_>, _progress: &Progress) -> Result<()> {
        Ok(())
    }

    /// How a process enters the workspace, if that is the only way to see it.
    #[cfg(target_os = "linux")]
    fn entrance(
        &self,
        _place: &Path,
        _origin: Origin<'_>,
        _progress: &Progress,
    ) -> Result<Option<crate::Entrance>> {
        Ok(None)
    }

    /// Whether [`attach`](Self::attach) makes the files visible to this
    /// process.
    fn attaches(&self, _place: &Path) -> Result<bool> {
        Ok(true)
    }

    /// Keeps other processes from entering a private workspace while the
    /// returned file is held.
    fn hold_entrance(&self, _place: &Path) -> Result<Option<File>> {
        Ok(None)
    }

    /// Returns some of the processes that have entered the workspace.
    fn users(&self, _place: &Path) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }

    /// Reads the workspace into the store.
    fn read(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<Reading>;

    /// Compares the workspace with its origin and stores nothing. Returns its
    /// tree, and a repository that has the directories of that tree.
    fn look(
        &self,
        place: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<(Tree, Repository)>;

    /// Returns the bytes that count towards the limit, if they are counted.
    fn used(&self, _place: &Path) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Changes the limit, if the workspace can have one.
    fn set_limit(&self, _place: &Path, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Flushes writes to disk, if the limit counts them only then.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the space of deleted workspaces to the disk, if that does not
    /// happen by itself.
    fn give_back(&self) -> Result<()> {
        Ok(())
    }

    /// Waits until deleted files no longer count towards the limit. Returns
    /// `false` if waiting cannot help.
    fn reclaim(&self, _place: &Path) -> Result<bool> {
        Ok(false)
    }

    /// Returns the workspaces in which a read or a change of the view may have
    /// been interrupted.
    fn cut_off(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Deletes the remains of an interrupted read.
    fn clear_away(&self, _place: &Path) -> Result<()> {
        Ok(())
    }

    /// Releases everything outside of the place. The caller deletes the place
    /// afterwards.
    fn release(&self, place: &Path) -> Result<()>;

    /// Deletes shared data that no workspace with one of these origins needs,
    /// if there is more of it than the provider keeps for later.
    fn tidy(&self, _origins: &[Origin<'_>]) -> Result<()> {
        Ok(())
    }
}

/// Shows snapshots as directories without writing them out.
pub trait LazyServer: fmt::Debug + Send + Sync {
    /// Mounts a snapshot on the directory `at`, where nothing is mounted. When
    /// this returns, the mount is complete and read-only, and its files belong
    /// to `owner`, or to the caller without one. The mount stays until it is
    /// unmounted. If the process that serves it dies, calls to it fail.
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

/// The name of a place is the id of its workspace.
#[cfg(target_os = "linux")]
fn place_id(place: &Path) -> &str {
    let name = place.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

/// The content of a workspace, read into the store.
#[derive(Debug)]
pub struct Reading {
    pub(crate) imported: Imported,
    pub(crate) cache: NewStatCache,
}

impl Reading {
    /// Returns what a snapshot of the workspace does not keep, each kind once.
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
