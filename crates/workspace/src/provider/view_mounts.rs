//! The mounts of read-only workspaces. A mount can be replaced by another while
//! it is in use, in containers too.
//!
//! ```text
//! read/ID        the mount that readers see
//! read.bare/ID   the same directory without the mount
//! read.lock      held while the mounts `read` and `read.bare` are created
//! ```
//!
//! A new mount goes *beneath* the old one, which is then unmounted
//! (`MOVE_MOUNT_BENEATH`, Linux 6.5), so one of them is always visible. Before
//! Linux 6.5 the old one is unmounted first, and the directory is empty between
//! the two calls. Unmounting is lazy: open files stay as they were.
//!
//! Mounts reach containers by propagation, as events. A container that was
//! given the *bare* directory of a reader (a slave of the shared mount that
//! contains `read`) receives every later mount on it; had it been given the
//! mount itself, it would keep that one for ever. So `read` is made a shared
//! mount unless it is in one, and `read.bare` is a slave of it, from which each
//! new mount is unmounted again without an effect elsewhere. `read.bare` is
//! read-only, and so are the containers' binds of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::mount::{MountPropagationFlags, MoveMountFlags, mount_bind, mount_change, unmount};

use crate::error::{Error, Result};
use crate::lock;
use crate::mountinfo::MountTable;
use crate::mounts::{
    self, LAZY, is_mount, is_mount_of, make_read_only, mount_clone, replace_mount, unmount_all,
};

/// The mounts of read-only workspaces.
#[derive(Debug)]
pub(crate) struct ViewMounts {
    root: PathBuf,
    shown: PathBuf,
    bare: PathBuf,
    is_prepared: OnceLock<()>,
}

impl ViewMounts {
    /// Returns the mounts in `root`, the directory of the workspaces.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.into(),
            shown: root.join("read"),
            bare: root.join("read.bare"),
            is_prepared: OnceLock::new(),
        }
    }

    /// The mount point of a reader.
    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.shown.join(id)
    }

    /// Mounts the directory `source`, which is itself a mount, on the path of
    /// `id`.
    pub(super) fn show(&self, id: &str, source: &Path) -> Result<()> {
        self.prepare()?;
        let path = self.path(id);
        let show = || -> io::Result<()> {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            match is_mount(&path)? {
                true => replace_mount(source, &path, MoveMountFlags::MOVE_MOUNT_BENEATH)?,
                false => mount_clone(source, &path)?,
            }
            // The new mount has also propagated to the bare directory, which
            // must stay without a mount.
            unmount_all(&self.bare.join(id))
        };
        show().map_err(Error::io("mount a view on", &path))
    }

    /// Like [`Self::show`], for a directory that is not a mount: it is mounted
    /// read-only on `between` for a moment.
    pub(super) fn show_directory(&self, id: &str, source: &Path, between: &Path) -> Result<()> {
        let mount = || -> io::Result<()> {
            fs::create_dir_all(between)?;
            unmount_all(between)?;
            mount_bind(source, between)?;
            mount_change(between, MountPropagationFlags::PRIVATE)?;
            make_read_only(between)
        };
        let mounted = mount().map_err(Error::io("mount a view on", between));
        let shown = mounted.and_then(|()| self.show(id, between));
        unmount_all(between).map_err(Error::io("unmount", between))?;
        shown
    }

    /// Whether `id` shows the mount at `source`.
    pub(super) fn is_showing(&self, id: &str, source: &Path) -> bool {
        is_mount_of(&self.path(id), source)
    }

    /// Unmounts mounts that an interrupted replacement has left on top of the
    /// one that shows `source`.
    pub(super) fn unmount_surplus(&self, id: &str, source: &Path) -> Result<()> {
        let path = self.path(id);
        let unmount_surplus = || -> io::Result<()> {
            // Only the surplus mounts: the last one stays, even if it shows
            // another snapshot.
            let spare = self
                .with_surplus_mounts()?
                .into_iter()
                .filter(|surplus| surplus == id);
            for _ in spare {
                if !self.is_showing(id, source) {
                    unmount(&path, LAZY)?;
                }
            }
            Ok(())
        };
        unmount_surplus().map_err(Error::io("unmount", &path))
    }

    /// Returns the ids of the workspaces with more than one mount, once for each
    /// surplus mount.
    pub(crate) fn with_surplus_mounts(&self) -> io::Result<Vec<String>> {
        let table = MountTable::of_self()?;
        let ids = table.iter().filter_map(|mount| {
            let point = mount.point();
            let id = point.strip_prefix(&self.shown).ok()?.to_str()?;
            (!id.is_empty()).then(|| id.to_owned())
        });
        let mut ids: Vec<_> = ids.collect();
        ids.sort();
        let spare = ids.windows(2).filter(|pair| pair[0] == pair[1]);
        Ok(spare.map(|pair| pair[0].clone()).collect())
    }

    /// Returns the directory of `id` without the mount.
    pub(super) fn bare(&self, id: &str) -> Result<PathBuf> {
        self.prepare()?;
        let bare = self.bare.join(id);
        unmount_all(&bare).map_err(Error::io("unmount", &bare))?;
        Ok(bare)
    }

    /// Unmounts and deletes the directory of `id`, if it exists.
    pub(super) fn remove(&self, id: &str) -> Result<()> {
        let path = self.path(id);
        let remove = || {
            for path in [&path, &self.bare.join(id)] {
                unmount_all(path)?;
            }
            match fs::remove_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        };
        remove().map_err(Error::io("unmount", &path))
    }

    /// Whether this process can mount here.
    pub(super) fn can_mount(&self) -> bool {
        self.prepare().is_ok()
    }

    /// Creates the mounts that all readers share, unless they exist. Continues
    /// where a killed process stopped.
    fn prepare(&self) -> Result<()> {
        if self.is_prepared.get().is_some() {
            return Ok(());
        }
        let prepare = || -> io::Result<()> {
            let _lock = lock::exclusive(&self.root.join("read.lock"))?;
            fs::create_dir_all(&self.shown)?;
            fs::create_dir_all(&self.bare)?;
            mounts::share(&self.shown)?;
            if !is_mount(&self.bare)? {
                mount_bind(&self.shown, &self.bare)?;
            }
            // A slave: unmounts in `read.bare` do not propagate to `read`.
            mount_change(&self.bare, MountPropagationFlags::DOWNSTREAM)?;
            make_read_only(&self.bare)
        };
        prepare().map_err(Error::io(
            "mount the shared directory of readers in",
            &self.root,
        ))?;
        let _ = self.is_prepared.set(());
        Ok(())
    }
}
