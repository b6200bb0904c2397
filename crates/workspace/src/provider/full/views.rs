//! Read-only workspaces without overlays.
//!
//! ```text
//! live/ID/trees/SNAPSHOT/   the snapshot that it shows, and the one before
//! live/ID/between           where a tree is mounted read-only for a moment
//! live/ID/files             without mounts: a link to the tree that it shows
//! ```
//!
//! Where this process can mount (root on Linux), readers use a read-only mount,
//! as with overlays. Elsewhere they use the link, which is replaced atomically,
//! and write bits are cleared. Either way open files stay as they were, but
//! only until the workspace has moved on twice: the provider cannot know
//! whether an old tree is still in use.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use elevo_engine::Progress;

use super::{FullProvider, refuse_limit};
use crate::error::{Error, Result};
#[cfg(target_os = "linux")]
use crate::mounts::unmount_all;
#[cfg(target_os = "linux")]
use crate::provider::place_id;
#[cfg(target_os = "linux")]
use crate::provider::view_mounts::ViewMounts;
use crate::provider::{Origin, Views};
use crate::trash;

const UNFINISHED: &str = "unfinished";
const WRITE_BITS: u32 = 0o222;

fn trees(place: &Path) -> PathBuf {
    place.join("trees")
}

fn tree(place: &Path, origin: Origin<'_>) -> PathBuf {
    trees(place).join(origin.id.to_string())
}

fn link(place: &Path) -> PathBuf {
    place.join("files")
}

#[cfg(target_os = "linux")]
fn is_linked(place: &Path) -> bool {
    fs::symlink_metadata(link(place)).is_ok_and(|stat| stat.is_symlink())
}

impl Views for FullProvider {
    fn path(&self, place: &Path) -> PathBuf {
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(place) {
            return mounts.path(place_id(place));
        }
        link(place)
    }

    fn prepare(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        let (tree, trees) = (tree(place, origin), trees(place));
        if tree.is_dir() {
            return Ok(());
        }
        let failed = || Error::io("create", &trees);
        fs::create_dir_all(&trees).map_err(failed())?;
        self.remove_unseen(place)?;
        let unfinished = trees.join(UNFINISHED);
        self.fill_from_base(&unfinished, origin, progress)?;
        if !self.is_mounted(place) {
            clear_write_bits(&unfinished).map_err(failed())?;
        }
        fs::rename(&unfinished, &tree).map_err(failed())
    }

    fn show(&self, place: &Path, origin: Origin<'_>) -> Result<()> {
        let tree = tree(place, origin);
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(place) {
            return mounts.show_directory(place_id(place), &tree, &place.join("between"));
        }
        let (link, new) = (link(place), place.join("files.new"));
        let target = tree.strip_prefix(place).unwrap_or(&tree);
        let replace = || {
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => symlink(target, &new)?,
            }
            fs::rename(&new, &link)
        };
        replace().map_err(Error::io("replace", &link))
    }

    fn shows(&self, place: &Path, origin: Origin<'_>) -> bool {
        self.is_seen(place, &tree(place, origin))
    }

    fn ensure_shown(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        refuse_limit(origin)?;
        self.prepare(place, origin, progress)?;
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(place) {
            mounts.settle(place_id(place), &tree(place, origin))?;
        }
        match self.shows(place, origin) {
            true => Ok(()),
            false => self.show(place, origin),
        }
    }

    fn bare(&self, _place: &Path) -> Result<Option<PathBuf>> {
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(_place) {
            return mounts.bare(place_id(_place)).map(Some);
        }
        Ok(None)
    }
}

impl FullProvider {
    /// The mounts of views, if this workspace uses them.
    #[cfg(target_os = "linux")]
    fn view_mounts_of(&self, place: &Path) -> Option<&ViewMounts> {
        let mounts = self.view_mounts.as_ref().filter(|_| !is_linked(place));
        mounts.filter(|mounts| mounts.can_mount())
    }

    fn is_mounted(&self, _place: &Path) -> bool {
        #[cfg(target_os = "linux")]
        return self.view_mounts_of(_place).is_some();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Deletes all trees except the visible one.
    fn remove_unseen(&self, place: &Path) -> Result<()> {
        let directory = trees(place);
        let list = || fs::read_dir(&directory)?.collect::<io::Result<Vec<_>>>();
        for entry in list().map_err(Error::io("list", &directory))? {
            let path = entry.path();
            if self.is_seen(place, &path) {
                continue;
            }
            // Moving a directory needs write permission on it.
            let writable = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&path, writable).map_err(Error::io("delete", &path))?;
            trash::remove(&path, &place.join("trash"))?;
        }
        Ok(())
    }

    fn is_seen(&self, place: &Path, tree: &Path) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(place) {
            return mounts.is_showing(place_id(place), tree);
        }
        fs::read_link(link(place)).is_ok_and(|target| place.join(target) == tree)
    }

    /// Unmounts the mounts of a view.
    pub(super) fn hide_tree(&self, _place: &Path) -> Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(mounts) = &self.view_mounts {
            let between = _place.join("between");
            unmount_all(&between).map_err(Error::io("unmount", &between))?;
            mounts.hide(place_id(_place))?;
        }
        Ok(())
    }
}

/// Makes all files in a directory read-only. No other process has opened it
/// yet.
fn clear_write_bits(directory: &Path) -> io::Result<()> {
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        let stat = fs::symlink_metadata(&path)?;
        if stat.is_symlink() {
            continue;
        }
        if stat.is_dir() {
            let entries = fs::read_dir(&path)?.map(|entry| Ok(entry?.path()));
            open.extend(entries.collect::<io::Result<Vec<_>>>()?);
        }
        let mode = stat.permissions().mode() & !WRITE_BITS;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}
