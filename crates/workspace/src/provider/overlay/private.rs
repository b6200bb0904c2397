//! Mounts overlays: for all processes, or in the user namespaces of the
//! processes that enter them.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use elevo_engine::Progress;

use super::{OverlayProvider, id};
use crate::error::{Error, Result};
use crate::mounts::unmount_all;
use crate::namespace::{Entrance, hold_entrance, may_mount, users_of};
use crate::provider::{Mounts, Origin, Private};

impl Mounts for OverlayProvider {
    fn is_mounted(&self, place: &Path) -> bool {
        let device = |path: &Path| fs::symlink_metadata(path).map(|stat| stat.dev());
        let (Ok(inside), Ok(around)) = (device(&place.join("files")), device(place)) else {
            return false;
        };
        let lazies = self.lazies.as_ref();
        inside != around && lazies.is_none_or(|lazies| lazies.is_well(place))
    }

    fn mount(&self, place: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        if self.lazies.is_some() {
            // Replaces a mount whose server has died.
            let files = place.join("files");
            unmount_all(&files).map_err(Error::io("unmount", &files))?;
        }
        let stack = self.stack(origin, progress)?;
        self.mount_stack(place, &stack, origin.owner)
    }
}

impl Private for OverlayProvider {
    fn can_mount(&self, place: &Path) -> Result<bool> {
        Ok(may_mount() && self.users(place)?.is_empty())
    }

    fn entrance(
        &self,
        place: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<Option<Entrance>> {
        if self.is_mounted(place) || self.can_mount(place)? {
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
        self.mount_stack(place, &stack, origin.owner)?;
        let room = self.room(place);
        let inode = fs::metadata(&room).map(|stat| stat.ino());
        Ok(Some(Entrance {
            lowers: stack.directories.clone(),
            inode: inode.map_err(Error::io("inspect", &room))?,
            room,
            files: place.join("files"),
        }))
    }

    fn lock_entrance(&self, place: &Path) -> Result<File> {
        hold_entrance(&self.room(place)).map_err(Error::io("lock", place))
    }

    fn users(&self, place: &Path) -> Result<Vec<u32>> {
        let users = users_of(&self.room(place).join("upper"));
        let users = users.map_err(Error::io("read", Path::new("/proc")))?;
        Ok(users.iter().map(|user| user.pid).collect())
    }
}
