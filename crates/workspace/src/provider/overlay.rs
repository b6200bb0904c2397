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
//! The last four are in `live/ID`, or in a subvolume of the pool. In a pool,
//! the cache is next to the subvolume, so that a workspace that has reached its
//! limit can still be read. A read-only workspace has only a home and a mount
//! of a view, which it shares with all readers of the same snapshot ([`Views`],
//! [`Readers`]).

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elevo_core::Name;
use elevo_engine::{
    ImportOptions, Marks, NewStatCache, Owner, Progress, Repository, StatCache, import_upper,
    look_upper,
};
use elevo_objects::Tree;
use rustix::fs::StatVfsMountFlags;
use rustix::mount::{MountFlags, mount};

use super::layers::{Layers, Stack, layer_id};
use super::lazy::Lazies;
use super::pool::Pool;
use super::readers::Readers;
use super::views::Views;
use super::{LazyServer, Origin, ProviderKind, Reading, WorkspaceProvider, place_id as id};
use crate::error::{Error, Result};
use crate::home::give;
use crate::mounts::unmount_all;
use crate::namespace::{Entrance, hold_entrance, may_mount, users_of};

/// Creates workspaces as overlays.
#[derive(Debug)]
pub struct OverlayProvider {
    repository: Repository,
    threads: usize,
    layers: Layers,
    views: Views,
    readers: Readers,
    pool: Option<Pool>,
    lazies: Option<Lazies>,
    marks: Marks,
}

impl OverlayProvider {
    /// Creates overlays over layers in `root`, the directory of the workspaces.
    /// Layers that no workspace needs are kept up to `budget` bytes.
    pub fn new(repository: Repository, threads: usize, root: &Path, budget: u64) -> Self {
        let layers = Layers::new(repository.clone(), threads, root, budget);
        Self {
            repository,
            threads,
            layers,
            views: Views::new(root),
            readers: Readers::new(root),
            pool: None,
            lazies: None,
            marks: Marks::Trusted,
        }
    }

    /// Creates private overlays in user namespaces, for users who may not
    /// mount.
    pub fn rootless(self) -> Self {
        let marks = Marks::User;
        Self { marks, ..self }
    }

    /// Serves snapshots that are not written out yet.
    pub fn lazy(self, root: &Path, server: Arc<dyn LazyServer>) -> Self {
        let lazies = Some(Lazies::new(root, server));
        Self { lazies, ..self }
    }

    /// Keeps uppers in a pool of at most `bytes`.
    pub fn with_pool(self, root: &Path, bytes: u64) -> Result<Self> {
        let pool = Some(Pool::open(root, bytes)?);
        Ok(Self { pool, ..self })
    }

    /// Creates the layers of an origin.
    pub fn write_out(&self, origin: Origin<'_>) -> Result<()> {
        self.layers.stack(origin, &Progress::new()).map(drop)
    }

    /// The directory of the upper of a workspace. Workspaces that are older
    /// than the pool are not in it.
    fn room(&self, place: &Path) -> PathBuf {
        match self.pool_of(place) {
            Some(pool) => pool.room(id(place)),
            None => place.into(),
        }
    }

    /// The cache is on the file system of the upper, because it compares its
    /// own time with the times there.
    fn cache(&self, place: &Path) -> PathBuf {
        match self.pool_of(place) {
            Some(pool) => pool.cache(id(place)),
            None => place.join("stat"),
        }
    }

    fn pool_of(&self, place: &Path) -> Option<&Pool> {
        let pool = self.pool.as_ref();
        pool.filter(|pool| pool.room(id(place)).exists())
    }

    fn stack(&self, origin: Origin<'_>, progress: &Progress) -> Result<Stack> {
        let lazies = self.lazies.as_ref();
        self.layers.stack_or(origin, progress, lazies)
    }

    fn mount(&self, place: &Path, stack: &Stack, owner: Option<Owner>) -> Result<()> {
        let (room, files) = (self.room(place), place.join("files"));
        let upper = room.join("upper");
        for directory in [&upper, &room.join("work"), &files] {
            match fs::create_dir(directory) {
                // The agent sees the upper as the root directory.
                Ok(()) if *directory == upper => give(&upper, owner)?,
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("create", directory)(error));
                }
                _ => {}
            }
        }
        if let Some(lazies) = &self.lazies {
            lazies.note(place, stack.served.as_deref())?;
        }
        if !self.attaches(place)? {
            return Ok(());
        }
        // The overlay would be read-only for as long as a container uses it.
        if self.pool.as_ref().is_some_and(Pool::is_stuck) {
            let stuck = io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(Error::io("mount an overlay in", place)(stuck));
        }
        let lowers: Vec<_> = stack.directories.iter().map(PathBuf::as_path).collect();
        let options = OverlayOptions {
            marks: self.marks,
            is_indexed: false,
        };
        let mounted = mount_overlay(&lowers, &room, &files, options, MountFlags::empty());
        mounted.map_err(Error::io("mount an overlay in", place))?;
        // The kernel makes it read-only if it cannot create its work directory.
        let flags = rustix::fs::statvfs(&files).map(|stat| stat.f_flag);
        if flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY)) {
            let failed = || Error::io("mount an overlay in", place);
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
        match (self.marks, &self.lazies) {
            (Marks::Trusted, None) => ProviderKind::Overlay,
            (Marks::Trusted, Some(_)) => ProviderKind::Lazy,
            (Marks::User, None) => ProviderKind::Rootless,
            (Marks::User, Some(_)) => ProviderKind::RootlessLazy,
        }
    }

    fn files(&self, place: &Path) -> PathBuf {
        place.join("files")
    }

    fn home(&self, place: &Path) -> PathBuf {
        self.room(place).join("home")
    }

    fn view(&self, place: &Path) -> PathBuf {
        self.readers.path(id(place))
    }

    fn prepare(&self, _: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        let stack = self.layers.stack(origin, progress)?;
        self.views.make(&view_of(origin), &stack, origin.owner)
    }

    fn show(&self, place: &Path, origin: Origin<'_>) -> Result<()> {
        let view = view_of(origin);
        if !self.views.is_there(&view) {
            let gone = io::ErrorKind::NotFound.into();
            return Err(Error::io("find", &self.views.path(&view))(gone));
        }
        self.readers.show(id(place), &self.views.path(&view))
    }

    fn shows(&self, place: &Path, origin: Origin<'_>) -> bool {
        let view = view_of(origin);
        self.views.is_there(&view) && self.readers.is_showing(id(place), &self.views.path(&view))
    }

    fn bare(&self, place: &Path) -> Result<Option<PathBuf>> {
        self.readers.bare(id(place)).map(Some)
    }

    fn create(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        match (&self.pool, origin.limit) {
            // Only the home needs space.
            (_, None) if origin.read_only => {}
            (Some(pool), limit) => pool.create(id(place), limit)?,
            (None, None) => {}
            (None, Some(_)) => return Err(Error::NoLimit),
        }
        self.attach(place, origin, progress)
    }

    fn fork(&self, _: &Path, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        self.create(place, origin, progress)
    }

    fn is_atomic(&self, place: &Path) -> bool {
        self.pool_of(place).is_some()
    }

    fn fork_at_once(
        &self,
        from: &Path,
        places: &[&Path],
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<()> {
        let Some(pool) = self.pool_of(from) else {
            unreachable!("called only if atomic");
        };
        // Holds the layers until the mounts exist: `tidy` could delete them
        // otherwise.
        let stack = self.stack(origin, progress)?;
        let ids: Vec<_> = places.iter().map(|place| id(place)).collect();
        pool.copy_all(id(from), &ids, origin.limit)?;
        for place in places {
            // The cache never changes and is valid for the copy. Without it the
            // next read takes longer.
            let _ = fs::hard_link(self.cache(from), self.cache(place));
        }
        places
            .iter()
            .try_for_each(|place| self.mount(place, &stack, origin.owner))
    }

    fn is_attached(&self, place: &Path) -> bool {
        let device = |path: &Path| fs::symlink_metadata(path).map(|stat| stat.dev());
        let (Ok(inside), Ok(around)) = (device(&place.join("files")), device(place)) else {
            return false;
        };
        let lazies = self.lazies.as_ref();
        inside != around && lazies.is_none_or(|lazies| lazies.is_well(place))
    }

    fn attach(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        if origin.read_only {
            self.prepare(place, origin, progress)?;
            let view = self.views.path(&view_of(origin));
            self.readers.settle(id(place), &view)?;
            if self.readers.is_showing(id(place), &view) {
                return Ok(());
            }
            return self.show(place, origin);
        }
        if self.lazies.is_some() {
            // Replaces a mount whose server has died.
            let files = place.join("files");
            unmount_all(&files).map_err(Error::io("unmount", &files))?;
        }
        let stack = self.stack(origin, progress)?;
        self.mount(place, &stack, origin.owner)
    }

    fn entrance(
        &self,
        place: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<Option<Entrance>> {
        if self.is_attached(place) || self.attaches(place)? {
            return Ok(None);
        }
        let pids = match may_mount() {
            // Never join namespaces that another user has created.
            true => self.users(place)?,
            false => Vec::new(),
        };
        if !pids.is_empty() {
            return Err(Error::InUse {
                id: id(place).into(),
                pids,
            });
        }
        let stack = self.stack(origin, progress)?;
        self.mount(place, &stack, origin.owner)?;
        let room = self.room(place);
        let inode = fs::metadata(&room).map(|stat| stat.ino());
        Ok(Some(Entrance {
            lowers: stack.directories.clone(),
            inode: inode.map_err(Error::io("inspect", &room))?,
            room,
            files: place.join("files"),
        }))
    }

    fn users(&self, place: &Path) -> Result<Vec<u32>> {
        if self.marks == Marks::Trusted {
            return Ok(Vec::new());
        }
        let users = users_of(&self.room(place).join("upper"));
        let users = users.map_err(Error::io("read", Path::new("/proc")))?;
        Ok(users.iter().map(|user| user.pid).collect())
    }

    fn attaches(&self, place: &Path) -> Result<bool> {
        Ok(self.marks == Marks::Trusted || may_mount() && self.users(place)?.is_empty())
    }

    fn hold_entrance(&self, place: &Path) -> Result<Option<File>> {
        if self.marks == Marks::Trusted {
            return Ok(None);
        }
        let held = hold_entrance(&self.room(place));
        held.map(Some).map_err(Error::io("lock", place))
    }

    fn read(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<Reading> {
        let room = self.room(place);
        let stat = self.cache(place);
        // Before the view of the upper is taken: the cache trusts only files
        // that are older than its own time.
        let cache = NewStatCache::begin(&stat).map_err(Error::io("write", &stat))?;
        let (repository, options) = (&self.repository, self.options());
        let pool = self.pool_of(place);
        let reading = pool.map(|pool| pool.reading(id(place))).transpose()?;
        let upper = reading
            .as_ref()
            .map_or(room.join("upper"), |reading| reading.upper());
        let base = origin.snapshot;
        let upper = (upper.as_path(), self.marks);
        let imported = import_upper(repository, upper, base, &options, progress, &cache)?;
        Ok(Reading { imported, cache })
    }

    fn look(
        &self,
        place: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<(Tree, Repository)> {
        let room = self.room(place);
        let old = StatCache::open(&self.cache(place));
        let (repository, options) = (&self.repository, self.options());
        let (upper, base) = (room.join("upper"), origin.snapshot);
        let upper = (upper.as_path(), self.marks);
        Ok(look_upper(
            repository, upper, base, &options, progress, &old,
        )?)
    }

    fn used(&self, place: &Path) -> Result<Option<u64>> {
        let pool = self.pool_of(place);
        pool.map_or(Ok(None), |pool| pool.used(id(place)))
    }

    fn set_limit(&self, place: &Path, bytes: u64) -> Result<()> {
        let pool = self.pool_of(place);
        pool.map_or(Ok(()), |pool| pool.set_limit(id(place), bytes))
    }

    fn sync(&self) -> Result<()> {
        self.pool.as_ref().map_or(Ok(()), Pool::sync)
    }

    fn give_back(&self) -> Result<()> {
        self.pool.as_ref().map_or(Ok(()), Pool::give_back)
    }

    fn reclaim(&self, place: &Path) -> Result<bool> {
        let pool = self.pool_of(place);
        pool.map_or(Ok(false), |pool| pool.reclaim(id(place)))
    }

    fn cut_off(&self) -> Result<Vec<String>> {
        let stacked = self.readers.stacked();
        let mut ids = stacked.map_err(Error::io("read", Path::new("/proc/self/mountinfo")))?;
        if let Some(pool) = &self.pool {
            ids.extend(pool.readings()?);
        }
        Ok(ids)
    }

    fn clear_away(&self, place: &Path) -> Result<()> {
        let pool = self.pool.as_ref();
        pool.map_or(Ok(()), |pool| pool.end_reading(id(place)))
    }

    fn release(&self, place: &Path) -> Result<()> {
        let files = place.join("files");
        unmount_all(&files).map_err(Error::io("unmount", &files))?;
        self.readers.hide(id(place))?;
        match &self.pool {
            Some(pool) => pool.remove(id(place)),
            None => Ok(()),
        }
    }

    fn tidy(&self, used: &[Origin<'_>]) -> Result<()> {
        let shown = used.iter().filter(|origin| origin.read_only);
        let shown: HashSet<_> = shown.map(|origin| view_of(*origin)).collect();
        self.layers.tidy(used, || self.views.tidy(&shown))?;
        match &self.lazies {
            Some(lazies) => lazies.tidy(used),
            None => Ok(()),
        }
    }
}

/// Names the view of an origin after the top layer of its stack.
fn view_of(origin: Origin<'_>) -> String {
    layer_id(origin.snapshot, origin.owner)
}

/// Mount options that differ between overlays.
#[derive(Clone, Copy)]
pub(crate) struct OverlayOptions {
    /// The namespace of the extended attributes of overlayfs.
    pub(crate) marks: Marks,
    /// Whether the kernel keeps an index of the upper, and so rejects an upper
    /// that another overlay uses.
    pub(crate) is_indexed: bool,
}

/// Mounts an overlay of `lowers`, the first on top, and of `upper` and `work`
/// in `room`, on `files`. Set-user-id bits and device files have no effect in
/// it.
pub(crate) fn mount_overlay(
    lowers: &[&Path],
    room: &Path,
    files: &Path,
    options: OverlayOptions,
    flags: MountFlags,
) -> io::Result<()> {
    let data = overlay_options(lowers, room, options)?;
    let flags = flags | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount(
        "overlay",
        files,
        "overlay",
        flags,
        Some(data.as_c_str()),
    )?)
}

/// Returns the mount options of an overlay.
///
/// With trusted attributes, directories from lower layers can be renamed
/// (`redirect_dir`); otherwise a rename fails with `EXDEV`, and programs copy.
/// A changed file is always complete in the upper (`metacopy` off).
pub(crate) fn overlay_options(
    lowers: &[&Path],
    room: &Path,
    options: OverlayOptions,
) -> io::Result<CString> {
    let mut data = match options.marks {
        Marks::Trusted => b"redirect_dir=on,".to_vec(),
        Marks::User => b"userxattr,".to_vec(),
    };
    data.extend_from_slice(b"metacopy=off,xino=auto,index=");
    data.extend_from_slice(match options.is_indexed {
        true => b"on,lowerdir=".as_slice(),
        false => b"off,lowerdir=",
    });
    for (at, lower) in lowers.iter().enumerate() {
        data.extend_from_slice(if at == 0 { b"" } else { b":" });
        data.extend(plain(lower)?);
    }
    for (name, directory) in [(",upperdir=", "upper"), (",workdir=", "work")] {
        data.extend_from_slice(name.as_bytes());
        data.extend(plain(&room.join(directory))?);
    }
    if data.len() >= LONGEST_OPTIONS {
        return Err(io::Error::other(
            "the paths of the layers are too long for a mount; use a shorter path for the workspaces",
        ));
    }
    Ok(CString::new(data)?)
}

/// The kernel copies at most one page of options.
const LONGEST_OPTIONS: usize = 4096;

/// Returns a path, or an error if it has a character with a meaning in mount
/// options.
fn plain(path: &Path) -> io::Result<&[u8]> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().any(|byte| b",:\\".contains(byte)) {
        return Err(io::Error::other(format!(
            "{} contains a comma, colon or backslash, which overlays do not support; use another path",
            path.display()
        )));
    }
    Ok(bytes)
}
