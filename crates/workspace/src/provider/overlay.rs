//! Workspaces that are overlays: a stack of layers that all share, and an upper
//! directory of their own that takes what is written. Making one is a mount,
//! whatever the size of its tree; what changed is what is in the upper. Needs
//! root.
//!
//! ```text
//! live/ID/files   where it is mounted: what the agent sees
//! live/ID/upper   what was changed
//! live/ID/work    overlayfs's own
//! live/ID/stat    the stat cache of the upper
//! ```

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use elevo_engine::{
    ImportOptions, NewStatCache, Progress, Repository, StatCache, import_upper, look_upper,
};
use elevo_objects::{Snapshot, Tree};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::layers::Layers;
use super::{Origin, ProviderKind, Reading, WorkspaceProvider};
use crate::error::{Error, Result};

/// Mounts overlays.
#[derive(Debug)]
pub struct OverlayProvider {
    repository: Repository,
    threads: usize,
    layers: Layers,
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
        }
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

    fn create(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        self.attach(place, origin, progress)
    }

    fn fork(&self, _: &Path, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        self.attach(place, origin, progress)
    }

    fn is_attached(&self, place: &Path) -> bool {
        let device = |path: &Path| fs::symlink_metadata(path).map(|stat| stat.dev());
        let (Ok(inside), Ok(around)) = (device(&place.join("files")), device(place)) else {
            return false;
        };
        inside != around
    }

    fn attach(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        let stack = self.layers.stack(origin.id, origin.snapshot, progress)?;
        for name in ["upper", "work", "files"] {
            match fs::create_dir(place.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("make a directory in", place)(error));
                }
                _ => {}
            }
        }
        let lowers: Vec<_> = stack.directories.iter().map(PathBuf::as_path).collect();
        mount_overlay(&lowers, place).map_err(Error::io("mount an overlay in", place))
    }

    fn read(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<Reading> {
        let stat = place.join("stat");
        let old = StatCache::open(&stat);
        let new = NewStatCache::begin(&stat).map_err(Error::io("write to", place))?;
        let (repository, options) = (&self.repository, self.options());
        let (upper, base) = (place.join("upper"), origin.snapshot);
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
        let old = StatCache::open(&place.join("stat"));
        let (repository, options) = (&self.repository, self.options());
        let (upper, base) = (place.join("upper"), origin.snapshot);
        Ok(look_upper(
            repository, &upper, base, &options, progress, &old,
        )?)
    }

    fn release(&self, place: &Path) -> Result<()> {
        let files = place.join("files");
        loop {
            match unmount(&files, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                Ok(()) => {}
                // Not, or no longer, mounted; or made by somebody who may.
                Err(Errno::INVAL | Errno::NOENT | Errno::PERM) => return Ok(()),
                Err(error) => return Err(Error::io("unmount", &files)(error.into())),
            }
        }
    }

    fn tidy(&self, used: &[Snapshot]) -> Result<()> {
        self.layers.tidy(used)
    }
}

/// Mounts an overlay of `lowers`, the first on top, on `files` in `place`.
///
/// Directories that come from below can be renamed (`redirect_dir`); a changed
/// file is always whole in the upper (`metacopy` off). Nothing in it gives
/// anybody another identity or a device.
pub(crate) fn mount_overlay(lowers: &[&Path], place: &Path) -> io::Result<()> {
    let mut data = b"redirect_dir=on,metacopy=off,index=off,xino=auto,lowerdir=".to_vec();
    for (at, lower) in lowers.iter().enumerate() {
        data.extend_from_slice(if at == 0 { b"" } else { b":" });
        data.extend(plain(lower)?);
    }
    for (name, directory) in [(",upperdir=", "upper"), (",workdir=", "work")] {
        data.extend_from_slice(name.as_bytes());
        data.extend(plain(&place.join(directory))?);
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
        place.join("files"),
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
