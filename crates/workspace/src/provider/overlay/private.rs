//! Mounts overlays: for all processes, or in the user namespaces of the
//! processes that enter them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use elevo_engine::Progress;

use super::{OverlayProvider, id};
use crate::error::{Error, Result};
use crate::mounts::unmount_all;
use crate::namespace::{self, Entrance, may_mount, users_of};
use crate::provider::{Mounts, Origin, Private};

impl Mounts for OverlayProvider {
    fn is_mounted(&self, live_dir: &Path) -> bool {
        let device = |path: &Path| fs::symlink_metadata(path).map(|stat| stat.dev());
        let (Ok(inside), Ok(around)) = (device(&live_dir.join("files")), device(live_dir)) else {
            return false;
        };
        let served = self.served.as_ref();
        inside != around && served.is_none_or(|served| served.is_alive(live_dir))
    }

    fn mount(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        if self.served.is_some() {
            // Replaces a mount whose server has died.
            let files = live_dir.join("files");
            unmount_all(&files).map_err(Error::io("unmount", &files))?;
        }
        let stack = self.stack(origin, progress)?;
        self.mount_stack(live_dir, &stack, origin.owner)
    }
}

impl Private for OverlayProvider {
    fn can_mount(&self, live_dir: &Path) -> Result<bool> {
        Ok(may_mount() && self.users(live_dir)?.is_empty())
    }

    fn entrance(
        &self,
        live_dir: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<Option<Entrance>> {
        if self.is_mounted(live_dir) || self.can_mount(live_dir)? {
            return Ok(None);
        }
        let pids = match may_mount() {
            // Root would have to join the namespace of another user, who
            // decides what is visible there.
            true => self.users(live_dir)?,
            false => Vec::new(),
        };
        if !pids.is_empty() {
            return Err(Error::InUse {
                id: id(live_dir).into(),
                pids,
            });
        }
        let stack = self.stack(origin, progress)?;
        self.mount_stack(live_dir, &stack, origin.owner)?;
        let changes = self.changes_dir(live_dir);
        let inode = fs::metadata(&changes).map(|stat| stat.ino());
        Ok(Some(Entrance {
            lowers: stack.directories.clone(),
            inode: inode.map_err(Error::io("inspect", &changes))?,
            room: changes,
            files: live_dir.join("files"),
        }))
    }

    fn lock_entrance(&self, live_dir: &Path) -> Result<File> {
        namespace::lock_entrance(&self.changes_dir(live_dir)).map_err(Error::io("lock", live_dir))
    }

    fn users(&self, live_dir: &Path) -> Result<Vec<u32>> {
        let users = users_of(&self.changes_dir(live_dir).join("upper"));
        let users = users.map_err(Error::io("read", Path::new("/proc")))?;
        Ok(users.iter().map(|user| user.pid).collect())
    }
}
