//! Read-only overlays, one for each stack of layers. Each reader has a mount of
//! such an overlay, and all readers of one overlay share the data that the
//! kernel caches.
//!
//! ```text
//! views/LAYER/files   the overlay of the stack with that layer on top
//!       …/upper       always empty; reserved by the kernel for this overlay
//!       …/work        the work directory of overlayfs
//! views/LAYER.N/      an overlay that is not mounted, but may have open files
//! views/LAYER.lock    held while the overlay is mounted
//! ```
//!
//! A reader that has moved on may have left files open. They cannot be listed,
//! but the kernel reserves an upper for one overlay until the last file in it
//! is closed. So the layers below are needed as long as the kernel rejects
//! another overlay with the same upper.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use elevo_engine::{OverlayXattrs, Owner};
use rustix::mount::{MountFlags, MountPropagationFlags, mount_change};

use super::layers::Stack;
use super::overlay::{OverlayOptions, mount_overlay};
use crate::error::{Error, Result};
use crate::lock;
use crate::mounts::{is_mount, unmount_all};
use crate::owner::set_owner;
use crate::trash;

/// The read-only overlays.
#[derive(Debug)]
pub(super) struct SharedViews {
    directory: PathBuf,
    trash: PathBuf,
}

const LOCK: &str = ".lock";

impl SharedViews {
    /// Returns the views in `root`, the directory of the workspaces.
    pub(super) fn new(root: &Path) -> Self {
        Self {
            directory: root.join("views"),
            trash: root.join("trash"),
        }
    }

    /// The mount point of the overlay of the stack with `layer` on top.
    pub(super) fn path(&self, layer: &str) -> PathBuf {
        self.directory.join(layer).join("files")
    }

    /// Whether the overlay is mounted.
    pub(super) fn is_mounted(&self, layer: &str) -> bool {
        is_mount(&self.path(layer)).is_ok_and(|is_mount| is_mount)
    }

    /// Mounts the overlay, unless it is mounted.
    pub(super) fn mount(&self, layer: &str, stack: &Stack, owner: Option<Owner>) -> Result<()> {
        let failed = || Error::io("mount an overlay in", &self.directory);
        fs::create_dir_all(&self.directory).map_err(failed())?;
        let lock = self.directory.join(format!("{layer}{LOCK}"));
        let _turn = lock::exclusive(&lock).map_err(failed())?;
        if self.is_mounted(layer) {
            return Ok(());
        }
        let directory = self.directory.join(layer);
        self.set_aside(layer, &directory).map_err(failed())?;
        for name in ["upper", "work", "files"] {
            fs::create_dir_all(directory.join(name)).map_err(failed())?;
        }
        set_owner(&directory.join("upper"), owner)?;
        let lowers: Vec<_> = stack.directories.iter().map(PathBuf::as_path).collect();
        let files = directory.join("files");
        let mount = || {
            mount_overlay(
                &lowers,
                &directory,
                &files,
                options(false),
                MountFlags::RDONLY,
            )?;
            // In a shared mount, the mounts and unmounts of one reader would
            // propagate to all readers.
            Ok(mount_change(&files, MountPropagationFlags::PRIVATE)?)
        };
        mount().map_err(failed())
    }

    /// Renames a view whose mount is gone, since files in it may still be open.
    fn set_aside(&self, layer: &str, directory: &Path) -> io::Result<()> {
        if !directory.try_exists()? {
            return Ok(());
        }
        let mut numbers = 0..;
        let aside = numbers.find_map(|number: u64| {
            let aside = self.directory.join(format!("{layer}.{number}"));
            (!aside.exists()).then_some(aside)
        });
        aside.map_or(Ok(()), |aside| fs::rename(directory, aside))
    }

    /// Deletes views that no reader needs; `needed` has the top layers of the
    /// views that readers see. Returns the top layers of the others that are
    /// still in use. The caller ensures that no view is created during the
    /// call.
    pub(super) fn tidy(&self, needed: &HashSet<String>) -> Result<Vec<String>> {
        let failed = || Error::io("clean up", &self.directory);
        let mut in_use = Vec::new();
        for (name, directory) in self.list().map_err(failed())? {
            let layer = name.split('.').next().unwrap_or_default();
            if name == layer && needed.contains(layer) {
                continue;
            }
            if retire(&directory).map_err(failed())? {
                trash::move_into(&directory, &self.trash)?;
            } else {
                in_use.push(layer.to_owned());
            }
        }
        Ok(in_use)
    }

    /// Lists all views, and deletes their locks.
    fn list(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let mut views = Vec::new();
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(views),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            match name.map(ToOwned::to_owned) {
                Some(name) if name.ends_with(LOCK) => fs::remove_file(path)?,
                Some(name) => views.push((name, path)),
                None => {}
            }
        }
        Ok(views)
    }
}

/// Unmounts a view. Returns whether it is not in use any more.
fn retire(directory: &Path) -> io::Result<bool> {
    let files = directory.join("files");
    if is_mount(&files).is_ok_and(|is_mount| is_mount) {
        // The view is mounted, so it must count as used. If it does not, this
        // kernel does not reserve uppers, and open files cannot be detected:
        // keep the view.
        if !is_used(directory)? {
            return Ok(false);
        }
        unmount_all(&files)?;
    }
    Ok(!is_used(directory)?)
}

/// Whether a file of the view is open, or the view is mounted. The kernel then
/// rejects the overlay with the same upper that this function tries to mount.
/// It does so only with `index=on`; without that option it only logs a warning.
fn is_used(directory: &Path) -> io::Result<bool> {
    let [below, probe] = ["below", "probe"].map(|name| directory.join(name));
    for directory in [
        &below,
        &probe,
        &directory.join("upper"),
        &directory.join("work"),
    ] {
        fs::create_dir_all(directory)?;
    }
    let flags = MountFlags::RDONLY;
    match mount_overlay(&[&below], directory, &probe, options(true), flags) {
        Ok(()) => unmount_all(&probe).map(|()| false),
        // Any other error counts as use, too: the view is then kept.
        Err(_) => Ok(true),
    }
}

const fn options(is_indexed: bool) -> OverlayOptions {
    OverlayOptions {
        marks: OverlayXattrs::Trusted,
        is_indexed,
    }
}
