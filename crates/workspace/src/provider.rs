//! How the directory of a workspace is made: [`WorkspaceProvider`], and one
//! module for each way.

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

/// The ways to make a workspace. The first that works is chosen, if nobody says
/// which; those after [`Copy`](Self::Copy) only if somebody does, since not
/// everybody sees what they make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// A mount over directories that all workspaces share.
    Overlay,
    /// The same, where the first workspace of a snapshot need not wait until
    /// that is written out: files are fetched when they are read.
    Lazy,
    /// Files that share their content with others until one is written to.
    Reflink,
    /// Files of its own.
    Copy,
    /// As `Overlay`, by whoever may not mount: only those who
    /// [enter](crate::Entrance) it see it.
    Rootless,
    /// The same as `Lazy`.
    RootlessLazy,
}

impl ProviderKind {
    /// All of them, in that order.
    pub const ALL: [Self; 6] = [
        Self::Overlay,
        Self::Lazy,
        Self::Reflink,
        Self::Copy,
        Self::Rootless,
        Self::RootlessLazy,
    ];

    /// Whether what it makes is seen only by those who enter it.
    pub const fn is_private(self) -> bool {
        matches!(self, Self::Rootless | Self::RootlessLazy)
    }

    /// Its name.
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

/// Makes, reads and takes away what is in the `place` of a workspace, a
/// directory that only one caller at a time works on.
///
/// 1. After [`create`](Self::create) and [`fork`](Self::fork), the directory
///    [`files`](Self::files) holds the snapshot, modification times included,
///    and nothing else, for whoever [sees](Self::is_attached) it or has
///    [entered](Self::entrance) it. All of it belongs to the origin's owner, if there is
///    one, and otherwise to the caller. What is written there is seen nowhere else, and nothing
///    written elsewhere is seen there.
/// 2. [`read`](Self::read) and [`look`](Self::look) see what is there if nobody
///    writes meanwhile. A file that is written meanwhile is taken as it is
///    found; the others are right.
/// 3. They read the content only of files that changed since the last
///    [`Reading::commit`], or that cannot be told from such.
/// 4. What an agent did in `files` makes none of them touch anything outside.
/// 5. [`release`](Self::release) undoes whatever outlives this process and the
///    directory. It takes what is half-made or half-released.
/// 6. One whose origin is read-only is seen at [`view`](Self::view), and
///    nobody who is not its maker can write there. After
///    [`show`](Self::show) whoever opens a path there anew finds the origin
///    and nothing else. What was opened before stays as it was until it is
///    closed: always with overlays; with copies and clones until the next
///    [`prepare`](Self::prepare) but one.
/// 7. A container that was started with [`bare`](Self::bare) bound into it, so
///    that mounts reach it (`rslave`), sees the same from the next
///    [`show`](Self::show) on.
pub trait WorkspaceProvider: fmt::Debug + Send + Sync {
    /// Which way this is.
    fn kind(&self) -> ProviderKind;

    /// The directory that the agent sees.
    fn files(&self, place: &Path) -> PathBuf;

    /// The directory that readers see of a read-only one.
    fn view(&self, place: &Path) -> PathBuf;

    /// Gets ready to show the origin: all that can take long or fail.
    fn prepare(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()>;

    /// Lets the view be of the origin, for which it was prepared and which
    /// nobody has tidied away since.
    fn show(&self, place: &Path, origin: Origin<'_>) -> Result<()>;

    /// Whether the view is of the origin.
    fn shows(&self, place: &Path, origin: Origin<'_>) -> bool;

    /// The directory that the view is mounted on, without what is mounted
    /// there; `None` if it is no mount.
    fn bare(&self, _place: &Path) -> Result<Option<PathBuf>> {
        Ok(None)
    }

    /// Where the home of the agent goes: beside `files`, under the same limit.
    fn home(&self, place: &Path) -> PathBuf {
        place.join("home")
    }

    /// Makes the workspace in `place`, which is empty; a view of the origin if
    /// that is read-only.
    fn create(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()>;

    /// Makes one in `place` whose origin was just read from the workspace in
    /// `from`, which nobody has written to since.
    fn fork(
        &self,
        from: &Path,
        place: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<()>;

    /// Whether [`read`](Self::read) and
    /// [`fork_at_once`](Self::fork_at_once) see what was there at one moment,
    /// whoever writes meanwhile.
    fn is_atomic(&self, _place: &Path) -> bool {
        false
    }

    /// Makes one in each of `places` that holds what the one in `from` holds,
    /// all of the same moment, home included, and has its origin. Only if it
    /// is atomic.
    fn fork_at_once(
        &self,
        _from: &Path,
        _places: &[&Path],
        _origin: Origin<'_>,
        _progress: &Progress,
    ) -> Result<()> {
        unreachable!("called only if atomic")
    }

    /// Whether the agent can see the workspace. Not after a restart of the
    /// machine, where it is a mount.
    fn is_attached(&self, _place: &Path) -> bool {
        true
    }

    /// Lets the agent see it again, unless only those who
    /// [enter](Self::entrance) it can. A view that is not of its origin becomes so.
    fn attach(&self, _place: &Path, _origin: Origin<'_>, _progress: &Progress) -> Result<()> {
        Ok(())
    }

    /// How a process gets to see it, if it does not by itself.
    #[cfg(target_os = "linux")]
    fn entrance(
        &self,
        _place: &Path,
        _origin: Origin<'_>,
        _progress: &Progress,
    ) -> Result<Option<crate::Entrance>> {
        Ok(None)
    }

    /// Whether [`attach`](Self::attach) lets us see it.
    fn attaches(&self, _place: &Path) -> Result<bool> {
        Ok(true)
    }

    /// Keeps everybody from entering it, if that is how it is seen.
    fn hold_entrance(&self, _place: &Path) -> Result<Option<File>> {
        Ok(None)
    }

    /// Some of the processes that have entered it.
    fn users(&self, _place: &Path) -> Result<Vec<u32>> {
        Ok(Vec::new())
    }

    /// Reads the workspace into the store.
    fn read(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<Reading>;

    /// Finds out what is in the workspace and stores nothing: its tree, and a
    /// repository that knows that tree's directories.
    fn look(
        &self,
        place: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<(Tree, Repository)>;

    /// How many bytes count towards its limit now, if that is counted.
    fn used(&self, _place: &Path) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Changes its limit, where there can be one.
    fn set_limit(&self, _place: &Path, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Writes what is in memory to the disk, where a limit counts it only then.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Gives the room of removed workspaces back to the disk, where it does not
    /// come back at once.
    fn give_back(&self) -> Result<()> {
        Ok(())
    }

    /// Waits until what was removed from it makes room, where that takes a
    /// while; `false` if it makes none.
    fn reclaim(&self, _place: &Path) -> Result<bool> {
        Ok(false)
    }

    /// Workspaces of which a reading, or a change of the view, may have been
    /// cut off.
    fn cut_off(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Clears away what a reading of it has left.
    fn clear_away(&self, _place: &Path) -> Result<()> {
        Ok(())
    }

    /// Lets go of the workspace; its place is removed afterwards.
    fn release(&self, place: &Path) -> Result<()>;

    /// Removes what workspaces with these origins don't share, if there is
    /// much of it.
    fn tidy(&self, _origins: &[Origin<'_>]) -> Result<()> {
        Ok(())
    }
}

/// Shows snapshots as directories without writing them out.
pub trait LazyServer: fmt::Debug + Send + Sync {
    /// Mounts a snapshot on the directory `at`, where nothing is mounted. When
    /// this returns it is there, can only be read, and belongs to `owner`, if
    /// there is one, and otherwise to the caller. It stays until somebody unmounts
    /// it, or whoever serves it dies: then calls to it fail.
    fn serve(&self, snapshot: SnapshotId, at: &Path, owner: Option<Owner>) -> io::Result<()>;
}

/// Serves nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoServer;

impl LazyServer for NoServer {
    fn serve(&self, _: SnapshotId, _: &Path, _: Option<Owner>) -> io::Result<()> {
        Err(io::Error::other("nobody here serves snapshots"))
    }
}

/// What a workspace is made from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The id of its snapshot.
    pub id: SnapshotId,
    /// What it is.
    pub snapshot: &'a Snapshot,
    /// How many bytes can be changed in it; refused where that cannot be held.
    pub limit: Option<u64>,
    /// Whose its files are, if not the maker's.
    pub owner: Option<Owner>,
    /// Whether it is only looked at.
    pub read_only: bool,
}

/// A place is called as its workspace.
#[cfg(target_os = "linux")]
fn place_id(place: &Path) -> &str {
    let name = place.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

/// What was read of a workspace.
#[derive(Debug)]
pub struct Reading {
    pub(crate) imported: Imported,
    pub(crate) cache: NewStatCache,
}

impl Reading {
    /// What a snapshot of the workspace does not keep, each kind once.
    pub fn losses(&self) -> &[Loss] {
        &self.imported.losses
    }

    /// Makes it a snapshot; durable when this returns.
    pub fn commit(self, repository: &Repository, info: CommitInfo) -> Result<SnapshotId> {
        let id = block_on(self.imported.commit(repository, info))?;
        // Without it, the next reading takes longer.
        let _ = self.cache.finish(id);
        Ok(id)
    }

    /// Only remembers it, for what is stored already as this snapshot.
    pub fn keep(self, id: SnapshotId) {
        let _ = self.cache.finish(id);
    }
}
