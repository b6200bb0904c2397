//! Where read-only workspaces are seen: a mount for each, which can be
//! exchanged for another while it is used, in containers too.
//!
//! ```text
//! read/ID        what readers see: a mount of what they read
//! read.bare/ID   the same directory without the mount
//! read.lock      held while the two mounts below are made
//! ```
//!
//! A new mount goes *beneath* the old one, which is then taken away
//! (`MOVE_MOUNT_BENEATH`, Linux 6.5): at no moment is there neither. Before
//! Linux 6.5 the old one is taken away first, and between these two calls the
//! directory is empty. Taking away is lazy: what was opened stays as it was.
//!
//! Mounts reach containers by propagation, as events: a container that was
//! given the *bare* directory of a reader (a slave of the shared mount that
//! `read` is in) gets whatever is mounted on it from then on. Had it been given
//! the mount itself, it would keep that one for ever. So `read` is made a
//! shared mount unless it is in one, and `read.bare` is a slave of it from which
//! each new mount is taken away again; that reaches nobody else. It is
//! read-only, and so is what containers have of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::mount::{MountPropagationFlags, MoveMountFlags, mount_bind, mount_change, unmount};

use crate::error::{Error, Result};
use crate::lock;
use crate::mounts::{self, LAZY, exchange, is_mount, make_read_only, shows, unmount_all};

/// The mounts of read-only workspaces.
#[derive(Debug)]
pub(super) struct Readers {
    root: PathBuf,
    shown: PathBuf,
    bare: PathBuf,
    is_ready: OnceLock<()>,
}

impl Readers {
    /// Those in `root`, where the workspaces are too.
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.into(),
            shown: root.join("read"),
            bare: root.join("read.bare"),
            is_ready: OnceLock::new(),
        }
    }

    /// What a reader sees.
    pub(super) fn path(&self, id: &str) -> PathBuf {
        self.shown.join(id)
    }

    /// Lets `id` see what is mounted on, or is, `source`.
    pub(super) fn show(&self, id: &str, source: &Path) -> Result<()> {
        self.make_ready()?;
        let path = self.path(id);
        let show = || -> io::Result<()> {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let is_first = !is_mount(&path)?;
            exchange(source, &path, is_first, MoveMountFlags::MOVE_MOUNT_BENEATH)?;
            unmount_all(&self.bare.join(id))
        };
        show().map_err(Error::io("mount a view on", &path))
    }

    /// The same with a directory that is not mounted anywhere, by way of the
    /// directory `between`, where it is mounted read-only for a moment.
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

    /// Whether `id` sees what is seen at `source`.
    pub(super) fn is_showing(&self, id: &str, source: &Path) -> bool {
        shows(&self.path(id), source)
    }

    /// Takes away mounts that an exchange which was cut off has left on top of
    /// the one that shows `source`.
    pub(super) fn settle(&self, id: &str, source: &Path) -> Result<()> {
        let path = self.path(id);
        let settle = || -> io::Result<()> {
            let spare = self.stacked()?.into_iter().filter(|stacked| stacked == id);
            for _ in spare {
                if !self.is_showing(id, source) {
                    unmount(&path, LAZY)?;
                }
            }
            Ok(())
        };
        settle().map_err(Error::io("unmount", &path))
    }

    /// The readers that have more than one mount; each as often as it has one
    /// too many.
    pub(super) fn stacked(&self) -> io::Result<Vec<String>> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let ids = points.filter_map(|point| {
            let id = Path::new(point).strip_prefix(&self.shown).ok()?.to_str()?;
            (!id.is_empty()).then(|| id.to_owned())
        });
        let mut ids: Vec<_> = ids.collect();
        ids.sort();
        let spare = ids.windows(2).filter(|pair| pair[0] == pair[1]);
        Ok(spare.map(|pair| pair[0].clone()).collect())
    }

    /// The directory of `id` without what is mounted there.
    pub(super) fn bare(&self, id: &str) -> Result<PathBuf> {
        self.make_ready()?;
        let bare = self.bare.join(id);
        unmount_all(&bare).map_err(Error::io("unmount", &bare))?;
        Ok(bare)
    }

    /// Takes away what `id` sees, if it sees anything.
    pub(super) fn hide(&self, id: &str) -> Result<()> {
        let path = self.path(id);
        let hide = || {
            for path in [&path, &self.bare.join(id)] {
                unmount_all(path)?;
            }
            match fs::remove_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        };
        hide().map_err(Error::io("unmount", &path))
    }

    /// Whether mounts can be made here.
    pub(super) fn can_mount(&self) -> bool {
        self.make_ready().is_ok()
    }

    /// Makes the mounts that all readers share, unless they are there. Whoever
    /// is killed at it leaves what the next goes on with.
    fn make_ready(&self) -> Result<()> {
        if self.is_ready.get().is_some() {
            return Ok(());
        }
        let make = || -> io::Result<()> {
            let _turn = lock::alone(&self.root.join("read.lock"))?;
            fs::create_dir_all(&self.shown)?;
            fs::create_dir_all(&self.bare)?;
            mounts::share(&self.shown)?;
            if !is_mount(&self.bare)? {
                mount_bind(&self.shown, &self.bare)?;
            }
            mount_change(&self.bare, MountPropagationFlags::DOWNSTREAM)?;
            make_read_only(&self.bare)
        };
        make().map_err(Error::io("mount what is shared by readers in", &self.root))?;
        let _ = self.is_ready.set(());
        Ok(())
    }
}
