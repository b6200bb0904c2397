//! Workspaces that are overlays: a stack of shared layers, and an upper for
//! each workspace that takes the writes. Creating one is a mount, regardless of
//! the size of its tree, and its changes are the content of the upper.
//!
//! Root mounts them for all processes. For users who may not mount, they are
//! created without a mount, and mounted in the user namespaces
//! ([`Entrance`](crate::Entrance)) of the processes that use them.
//!
//! ```text
//! live/ID/files   the mount point, which the agent sees
//!      …/upper    the changes
//!      …/work     the work directory of overlayfs
//!      …/home     the agent's home
//!      …/stat     the stat cache of the upper
//! ```
//!
//! Without a pool, the last four are in `live/ID`. With a pool, they are in a
//! subvolume, except the cache, which is next to it. A read-only workspace has
//! only a home and a mount ([`ViewMounts`]) of an overlay that it shares with
//! all readers of the same snapshot ([`SharedViews`]).

mod mount_options;
mod pooled;
mod private;
mod views;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevo_core::Name;
use elevo_engine::{
    ImportOptions, NewStatCache, OverlayXattrs, Owner, Progress, Repository, StatCache,
    import_upper, scan_upper,
};
use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountFlags;

use self::pooled::PooledWorkspace;
use super::layers::{Layers, Stack, layer_id};
use super::pool::Pool;
use super::served::ServedSnapshots;
use super::shared_views::SharedViews;
use super::view_mounts::ViewMounts;
use super::{
    AtomicForks, LazyServer, Limits, Mounts, Origin, Private, ProviderKind, Reading, Scan, Views,
    Volume, WorkspaceProvider, workspace_id as id,
};
use crate::error::{Error, Result};
use crate::mounts::unmount_all;
use crate::owner::set_owner;

pub(crate) use mount_options::{OverlayOptions, mount_overlay, overlay_options};

/// Creates workspaces as overlays.
#[derive(Debug)]
pub struct OverlayProvider {
    repository: Repository,
    threads: usize,
    layers: Layers,
    views: SharedViews,
    view_mounts: ViewMounts,
    pool: Option<Pool>,
    served: Option<ServedSnapshots>,
    marks: OverlayXattrs,
}

impl OverlayProvider {
    /// Returns a provider that creates overlays over layers in `root`, the
    /// directory of the workspaces. Layers that no workspace needs are kept up
    /// to `budget` bytes.
    pub fn new(repository: Repository, threads: usize, root: &Path, budget: u64) -> Self {
        let layers = Layers::new(repository.clone(), threads, root, budget);
        Self {
            repository,
            threads,
            layers,
            views: SharedViews::new(root),
            view_mounts: ViewMounts::new(root),
            pool: None,
            served: None,
            marks: OverlayXattrs::Trusted,
        }
    }

    /// Makes the provider create private overlays in user namespaces, for users
    /// who may not mount.
    pub fn rootless(self) -> Self {
        let marks = OverlayXattrs::User;
        Self { marks, ..self }
    }

    /// Makes the provider serve snapshots that are not written out yet.
    pub fn lazy(self, root: &Path, server: Arc<dyn LazyServer>) -> Self {
        let served = Some(ServedSnapshots::new(root, server));
        Self { served, ..self }
    }

    /// Makes the provider keep uppers in a pool. If the pool needs a file, the
    /// file has at most `bytes`.
    pub fn with_pool(self, root: &Path, bytes: u64) -> Result<Self> {
        let pool = Some(Pool::open(root, bytes)?);
        Ok(Self { pool, ..self })
    }

    /// Creates the layers of an origin.
    pub fn write_out(&self, origin: Origin<'_>) -> Result<()> {
        self.layers.stack(origin, &Progress::new()).map(drop)
    }

    /// The directory with `upper`, `work` and `home` of a workspace: a subvolume
    /// of the pool, or `live/ID` if there is no pool or if the workspace is
    /// older than the pool.
    fn changes_dir(&self, live_dir: &Path) -> PathBuf {
        match self.pool_of(live_dir) {
            Some(pool) => pool.subvolume(id(live_dir)),
            None => live_dir.into(),
        }
    }

    /// The stat cache. It is on the file system of the upper, because it
    /// compares its own time with the times of files there.
    fn cache(&self, live_dir: &Path) -> PathBuf {
        match self.pool_of(live_dir) {
            Some(pool) => pool.cache(id(live_dir)),
            None => live_dir.join("stat"),
        }
    }

    /// The pool, if the upper of this workspace is in it.
    fn pool_of(&self, live_dir: &Path) -> Option<&Pool> {
        let pool = self.pool.as_ref();
        pool.filter(|pool| pool.subvolume(id(live_dir)).exists())
    }

    fn stack(&self, origin: Origin<'_>, progress: &Progress) -> Result<Stack> {
        let served = self.served.as_ref();
        self.layers.stack_or_serve(origin, progress, served)
    }

    /// Mounts a workspace, or only creates its directories if this process must
    /// not mount it.
    fn mount_stack(&self, live_dir: &Path, stack: &Stack, owner: Option<Owner>) -> Result<()> {
        let (changes, files) = (self.changes_dir(live_dir), live_dir.join("files"));
        let upper = changes.join("upper");
        for directory in [&upper, &changes.join("work"), &files] {
            match fs::create_dir(directory) {
                // The agent sees the upper as the root directory, so it belongs
                // to the owner of the files.
                Ok(()) if *directory == upper => set_owner(&upper, owner)?,
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("create", directory)(error));
                }
                _ => {}
            }
        }
        if let Some(served) = &self.served {
            served.record(live_dir, stack.served.as_deref())?;
        }
        if let Some(private) = self.private()
            && !private.can_mount(live_dir)?
        {
            return Ok(());
        }
        // An overlay that is mounted now would be read-only, and would stay so
        // for as long as a container uses it.
        if self.pool.as_ref().is_some_and(Pool::is_stuck) {
            let stuck = io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(Error::io("mount an overlay in", live_dir)(stuck));
        }
        let lowers: Vec<_> = stack.directories.iter().map(PathBuf::as_path).collect();
        let options = OverlayOptions {
            marks: self.marks,
            is_indexed: false,
        };
        let mounted = mount_overlay(&lowers, &changes, &files, options, MountFlags::empty());
        mounted.map_err(Error::io("mount an overlay in", live_dir))?;
        // If the kernel cannot create its directory in `work`, the mount
        // succeeds and is read-only.
        let flags = rustix::fs::statvfs(&files).map(|stat| stat.f_flag);
        if flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY)) {
            let failed = || Error::io("mount an overlay in", live_dir);
            unmount_all(&files).map_err(failed())?;
            return Err(failed()(io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }

    fn options(&self) -> ImportOptions {
        ImportOptions {
            threads: self.threads,
            leave_out: vec![Name::reserved()],
            ignoring: None,
        }
    }
}

impl WorkspaceProvider for OverlayProvider {
    fn kind(&self) -> ProviderKind {
        match (self.marks, &self.served) {
            (OverlayXattrs::Trusted, None) => ProviderKind::Overlay,
            (OverlayXattrs::Trusted, Some(_)) => ProviderKind::Lazy,
            (OverlayXattrs::User, None) => ProviderKind::Rootless,
            (OverlayXattrs::User, Some(_)) => ProviderKind::RootlessLazy,
        }
    }

    fn files(&self, live_dir: &Path) -> PathBuf {
        live_dir.join("files")
    }

    fn home(&self, live_dir: &Path) -> PathBuf {
        self.changes_dir(live_dir).join("home")
    }

    fn create(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        match (&self.pool, origin.limit) {
            // Only the home of a read-only workspace takes space, and this one
            // has no limit.
            (_, None) if origin.read_only => {}
            (Some(pool), limit) => pool.create(id(live_dir), limit)?,
            (None, None) => {}
            (None, Some(_)) => return Err(Error::NoLimit),
        }
        match origin.read_only {
            true => self.ensure_shown(live_dir, origin, progress),
            false => self.mount(live_dir, origin, progress),
        }
    }

    fn fork(
        &self,
        _: &Path,
        live_dir: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<()> {
        self.create(live_dir, origin, progress)
    }

    fn read(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<Reading> {
        let changes = self.changes_dir(live_dir);
        let stat = self.cache(live_dir);
        // Begun before the snapshot of the upper is taken: the cache trusts only
        // files that are older than its own time.
        let cache = NewStatCache::begin(&stat).map_err(Error::io("write", &stat))?;
        let (repository, options) = (&self.repository, self.options());
        let pool = self.pool_of(live_dir);
        let snapshot = pool
            .map(|pool| pool.snapshot_for_reading(id(live_dir)))
            .transpose()?;
        let upper = snapshot
            .as_ref()
            .map_or(changes.join("upper"), |snapshot| snapshot.upper());
        let base = origin.snapshot;
        let upper = (upper.as_path(), self.marks);
        let imported = import_upper(repository, upper, base, &options, progress, &cache)?;
        Ok(Reading { imported, cache })
    }

    fn scan(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<Scan> {
        let changes = self.changes_dir(live_dir);
        let old = StatCache::open(&self.cache(live_dir));
        let (repository, options) = (&self.repository, self.options());
        let (upper, base) = (changes.join("upper"), origin.snapshot);
        let upper = (upper.as_path(), self.marks);
        let (tree, view) = scan_upper(repository, upper, base, &options, progress, &old)?;
        Ok(Scan { tree, view })
    }

    fn release(&self, live_dir: &Path) -> Result<()> {
        let files = live_dir.join("files");
        unmount_all(&files).map_err(Error::io("unmount", &files))?;
        self.view_mounts.remove(id(live_dir))?;
        match &self.pool {
            Some(pool) => pool.delete(id(live_dir)),
            None => Ok(()),
        }
    }

    fn tidy(&self, used: &[Origin<'_>]) -> Result<()> {
        let shown = used.iter().filter(|origin| origin.read_only);
        let shown: HashSet<_> = shown.map(|origin| view_of(*origin)).collect();
        self.layers.tidy(used, || self.views.tidy(&shown))?;
        match &self.served {
            Some(served) => served.tidy(used),
            None => Ok(()),
        }
    }

    fn views(&self) -> &dyn Views {
        self
    }

    fn mounts(&self) -> Option<&dyn Mounts> {
        Some(self)
    }

    fn private(&self) -> Option<&dyn Private> {
        match self.marks {
            OverlayXattrs::Trusted => None,
            OverlayXattrs::User => Some(self),
        }
    }

    fn atomic_forks<'a>(&'a self, live_dir: &'a Path) -> Option<Box<dyn AtomicForks + 'a>> {
        Some(Box::new(PooledWorkspace::find(self, live_dir)?))
    }

    fn limits<'a>(&'a self, live_dir: &'a Path) -> Option<Box<dyn Limits + 'a>> {
        Some(Box::new(PooledWorkspace::find(self, live_dir)?))
    }

    fn volume(&self) -> Option<&dyn Volume> {
        let pool = self.pool.as_ref();
        pool.map(|pool| pool as &dyn Volume)
    }
}

/// Returns the name of the view of an origin: the id of the top layer of its
/// stack.
fn view_of(origin: Origin<'_>) -> String {
    layer_id(origin.snapshot, origin.owner)
}
