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

use super::{FullProvider, reject_limit};
use crate::error::{Error, Result};
#[cfg(target_os = "linux")]
use crate::mounts::unmount_all;
#[cfg(target_os = "linux")]
use crate::provider::view_mounts::ViewMounts;
#[cfg(target_os = "linux")]
use crate::provider::workspace_id;
use crate::provider::{Origin, Views};
use crate::trash;

const UNFINISHED: &str = "unfinished";
const WRITE_BITS: u32 = 0o222;

fn trees(live_dir: &Path) -> PathBuf {
    live_dir.join("trees")
}

fn tree(live_dir: &Path, origin: Origin<'_>) -> PathBuf {
    trees(live_dir).join(origin.id.to_string())
}

fn link(live_dir: &Path) -> PathBuf {
    live_dir.join("files")
}

#[cfg(target_os = "linux")]
fn is_linked(live_dir: &Path) -> bool {
    fs::symlink_metadata(link(live_dir)).is_ok_and(|stat| stat.is_symlink())
}

impl Views for FullProvider {
    fn path(&self, live_dir: &Path) -> PathBuf {
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(live_dir) {
            return mounts.path(workspace_id(live_dir));
        }
        link(live_dir)
    }

    fn prepare(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        let (tree, trees) = (tree(live_dir, origin), trees(live_dir));
        if tree.is_dir() {
            return Ok(());
        }
        let failed = || Error::io("create", &trees);
        fs::create_dir_all(&trees).map_err(failed())?;
        self.remove_unseen(live_dir)?;
        let unfinished = trees.join(UNFINISHED);
        self.fill_from_base(&unfinished, origin, progress)?;
        if !self.is_mounted(live_dir) {
            clear_write_bits(&unfinished).map_err(failed())?;
        }
        fs::rename(&unfinished, &tree).map_err(failed())
    }

    fn show(&self, live_dir: &Path, origin: Origin<'_>) -> Result<()> {
        let tree = tree(live_dir, origin);
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(live_dir) {
            return mounts.show_directory(workspace_id(live_dir), &tree, &live_dir.join("between"));
        }
        let (link, new) = (link(live_dir), live_dir.join("files.new"));
        let target = tree.strip_prefix(live_dir).unwrap_or(&tree);
        let replace = || {
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => symlink(target, &new)?,
            }
            fs::rename(&new, &link)
        };
        replace().map_err(Error::io("replace", &link))
    }

    fn shows(&self, live_dir: &Path, origin: Origin<'_>) -> bool {
        self.is_seen(live_dir, &tree(live_dir, origin))
    }

    fn ensure_shown(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        reject_limit(origin)?;
        self.prepare(live_dir, origin, progress)?;
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(live_dir) {
            mounts.unmount_surplus(workspace_id(live_dir), &tree(live_dir, origin))?;
        }
        match self.shows(live_dir, origin) {
            true => Ok(()),
            false => self.show(live_dir, origin),
        }
    }

    fn bare(&self, _live_dir: &Path) -> Result<Option<PathBuf>> {
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(_live_dir) {
            return mounts.bare(workspace_id(_live_dir)).map(Some);
        }
        Ok(None)
    }
}

impl FullProvider {
    /// The mounts of views, if this workspace uses them.
    #[cfg(target_os = "linux")]
    fn view_mounts_of(&self, live_dir: &Path) -> Option<&ViewMounts> {
        let mounts = self.view_mounts.as_ref().filter(|_| !is_linked(live_dir));
        mounts.filter(|mounts| mounts.can_mount())
    }

    fn is_mounted(&self, _live_dir: &Path) -> bool {
        #[cfg(target_os = "linux")]
        return self.view_mounts_of(_live_dir).is_some();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Deletes all trees except the visible one.
    fn remove_unseen(&self, live_dir: &Path) -> Result<()> {
        let directory = trees(live_dir);
        let list = || fs::read_dir(&directory)?.collect::<io::Result<Vec<_>>>();
        for entry in list().map_err(Error::io("list", &directory))? {
            let path = entry.path();
            if self.is_seen(live_dir, &path) {
                continue;
            }
            // Moving a directory needs write permission on it.
            let writable = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&path, writable).map_err(Error::io("delete", &path))?;
            trash::delete(&path, &live_dir.join("trash"))?;
        }
        Ok(())
    }

    fn is_seen(&self, live_dir: &Path, tree: &Path) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(mounts) = self.view_mounts_of(live_dir) {
            return mounts.is_showing(workspace_id(live_dir), tree);
        }
        fs::read_link(link(live_dir)).is_ok_and(|target| live_dir.join(target) == tree)
    }

    /// Unmounts the mounts of a view.
    pub(super) fn hide_tree(&self, _live_dir: &Path) -> Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(mounts) = &self.view_mounts {
            let between = _live_dir.join("between");
            unmount_all(&between).map_err(Error::io("unmount", &between))?;
            mounts.remove(workspace_id(_live_dir))?;
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
