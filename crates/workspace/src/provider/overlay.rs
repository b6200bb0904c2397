//! Workspaces that are overlays: a stack of layers that all share, and an upper
//! directory of their own that takes what is written. Making one is a mount,
//! whatever the size of its tree; what changed is what is in the upper. Needs
//! root.
//!
//! ```text
//! live/ID/files   where it is mounted: what the agent sees
//!      …/upper    what was changed
//!      …/work     overlayfs's own
//!      …/home     the agent's home
//!      …/stat     the stat cache of the upper
//! ```
//!
//! The last four are in `live/ID`, or in a subvolume of the pool. There the
//! cache is beside the subvolume, so that a workspace without any room left can
//! still be read.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use elevo_engine::{
    ImportOptions, NewStatCache, Owner, Progress, Repository, StatCache, import_upper, look_upper,
};
use elevo_objects::Tree;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::layers::{Layers, Stack};
use super::pool::Pool;
use super::{Origin, ProviderKind, Reading, WorkspaceProvider};
use crate::error::{Error, Result};
use crate::home::give;

/// Mounts overlays.
#[derive(Debug)]
pub struct OverlayProvider {
    repository: Repository,
    threads: usize,
    layers: Layers,
    pool: Option<Pool>,
}

impl OverlayProvider {
    /// Overlays over layers in `root`, where the workspaces are too. Layers
    /// that no workspace needs are kept up to `budget` bytes.
    pub fn new(repository: Repository, threads: usize, root: &Path, budget: u64) -> Self {
        let layers = Layers::new(repository.clone(), threads, root, budget);
        Self {
            repository,
            threads,
            layers,
            pool: None,
        }
    }

    /// The same with uppers in a pool of at most `bytes`.
    pub fn with_pool(self, root: &Path, bytes: u64) -> Result<Self> {
        let pool = Some(Pool::open(root, bytes)?);
        Ok(Self { pool, ..self })
    }

    /// Where the upper of a workspace is. One that was made before there was a
    /// pool is not in it.
    fn room(&self, place: &Path) -> PathBuf {
        match self.pool_of(place) {
            Some(pool) => pool.room(id(place)),
            None => place.into(),
        }
    }

    /// On the file system of the upper, whose clock it goes by.
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

    fn mount(&self, place: &Path, stack: &Stack, owner: Option<Owner>) -> Result<()> {
        let (room, files) = (self.room(place), place.join("files"));
        let upper = room.join("upper");
        for directory in [&upper, &room.join("work"), &files] {
            match fs::create_dir(directory) {
                // What the agent sees of the root is the upper's.
                Ok(()) if *directory == upper => give(&upper, owner)?,
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("make", directory)(error));
                }
                _ => {}
            }
        }
        let lowers: Vec<_> = stack.directories.iter().map(PathBuf::as_path).collect();
        let mounted = mount_overlay(&lowers, &room, &files);
        mounted.map_err(Error::io("mount an overlay in", place))
    }

    fn options(&self) -> ImportOptions {
        ImportOptions {
            threads: self.threads,
            leave_out: Vec::new(),
        }
    }
}

impl WorkspaceProvider for OverlayProvider {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Overlay
    }

    fn files(&self, place: &Path) -> PathBuf {
        place.join("files")
    }

    fn home(&self, place: &Path) -> PathBuf {
        self.room(place).join("home")
    }

    fn create(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        match (&self.pool, origin.limit) {
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
        let stack = self.layers.stack(origin, progress)?;
        // The first is of this moment, and the others are of the first, which
        // nobody can write to yet.
        let mut source = id(from);
        for place in places {
            pool.copy(source, id(place), origin.limit)?;
            source = id(places[0]);
            // It never changes, and is true of the copy. Without it the next
            // reading takes longer.
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
        inside != around
    }

    fn attach(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        let stack = self.layers.stack(origin, progress)?;
        self.mount(place, &stack, origin.owner)
    }

    fn read(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<Reading> {
        let room = self.room(place);
        let stat = self.cache(place);
        let old = StatCache::open(&stat);
        let new = NewStatCache::begin(&stat).map_err(Error::io("write", &stat))?;
        let (repository, options) = (&self.repository, self.options());
        let pool = self.pool_of(place);
        let reading = pool.map(|pool| pool.reading(id(place))).transpose()?;
        let upper = reading
            .as_ref()
            .map_or(room.join("upper"), |reading| reading.upper());
        let base = origin.snapshot;
        let imported = import_upper(repository, &upper, base, &options, progress, &old, &new)?;
        Ok(Reading {
            imported,
            cache: new,
        })
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
        Ok(look_upper(
            repository, &upper, base, &options, progress, &old,
        )?)
    }

    fn used(&self, place: &Path) -> Result<Option<u64>> {
        let pool = self.pool_of(place);
        pool.map_or(Ok(None), |pool| pool.used(id(place)))
    }

    fn reclaim(&self, place: &Path) -> Result<bool> {
        let pool = self.pool_of(place);
        pool.map_or(Ok(false), |pool| pool.reclaim(id(place)))
    }

    fn cut_off(&self) -> Result<Vec<String>> {
        self.pool.as_ref().map_or(Ok(Vec::new()), Pool::readings)
    }

    fn clear_away(&self, place: &Path) -> Result<()> {
        let pool = self.pool.as_ref();
        pool.map_or(Ok(()), |pool| pool.end_reading(id(place)))
    }

    fn release(&self, place: &Path) -> Result<()> {
        let files = place.join("files");
        loop {
            match unmount(&files, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                Ok(()) => {}
                // Not, or no longer, mounted; or made by somebody who may.
                Err(Errno::INVAL | Errno::NOENT | Errno::PERM) => break,
                Err(error) => return Err(Error::io("unmount", &files)(error.into())),
            }
        }
        match &self.pool {
            Some(pool) => pool.remove(id(place)),
            None => Ok(()),
        }
    }

    fn tidy(&self, used: &[Origin<'_>]) -> Result<()> {
        self.layers.tidy(used)
    }
}

/// A place is called as its workspace.
fn id(place: &Path) -> &str {
    let name = place.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

/// Mounts an overlay of `lowers`, the first on top, and of `upper` and `work`
/// in `room`, on `files`.
///
/// Directories that come from below can be renamed (`redirect_dir`); a changed
/// file is always whole in the upper (`metacopy` off). Nothing in it gives
/// anybody another identity or a device.
pub(crate) fn mount_overlay(lowers: &[&Path], room: &Path, files: &Path) -> io::Result<()> {
    let mut data = b"redirect_dir=on,metacopy=off,index=off,xino=auto,lowerdir=".to_vec();
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
            "the paths of the layers are too long for a mount; keep workspaces in a shorter path",
        ));
    }
    let data = CString::new(data)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount(
        "overlay",
        files,
        "overlay",
        flags,
        Some(data.as_c_str()),
    )?)
}

/// What the kernel copies.
const LONGEST_OPTIONS: usize = 4096;

/// A path without what options of a mount give a meaning to.
fn plain(path: &Path) -> io::Result<&[u8]> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().any(|byte| b",:\\".contains(byte)) {
        return Err(io::Error::other(format!(
            "{} has a comma, colon or backslash in it, which an overlay cannot have",
            path.display()
        )));
    }
    Ok(bytes)
}
