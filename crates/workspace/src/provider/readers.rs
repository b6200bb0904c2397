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

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_bind,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};

use crate::error::{Error, Result};
use crate::lock;

/// The mounts of read-only workspaces.
#[derive(Debug)]
pub(super) struct Readers {
    root: PathBuf,
    shown: PathBuf,
    bare: PathBuf,
    is_ready: OnceLock<()>,
}

const LAZY: UnmountFlags = UnmountFlags::DETACH.union(UnmountFlags::NOFOLLOW);

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
        use std::os::unix::fs::MetadataExt;
        let identity = |path: &Path| fs::metadata(path).map(|stat| (stat.dev(), stat.ino()));
        let (Ok(shown), Ok(wanted)) = (identity(&self.path(id)), identity(source)) else {
            return false;
        };
        shown == wanted && is_mount(&self.path(id)).is_ok_and(|is_mount| is_mount)
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
            let is_own = is_mount(&self.shown)?;
            if !is_own && !is_shared(&self.shown)? {
                mount_bind(&self.shown, &self.shown)?;
            }
            if !is_shared(&self.shown)? {
                mount_change(&self.shown, MountPropagationFlags::PRIVATE)?;
                mount_change(&self.shown, MountPropagationFlags::SHARED)?;
            }
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

/// Lets nobody write through a mount.
fn make_read_only(path: &Path) -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount_remount(path, MountFlags::BIND | flags, "")?)
}

/// Mounts what is seen at `source` on `path`, in the place of what is mounted
/// there unless it is the first. With the flag `beneath` the kernel puts it
/// below that, if it knows the flag.
fn exchange(source: &Path, path: &Path, is_first: bool, beneath: MoveMountFlags) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let new = open_tree(CWD, source, flags)?;
    let attach = |flags| {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | flags;
        move_mount(&new, "", CWD, path, flags)
    };
    if !is_first {
        match attach(beneath) {
            Ok(()) => return Ok(unmount(path, LAZY)?),
            // Before Linux 6.5.
            Err(Errno::INVAL) => unmount(path, LAZY)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(attach(MoveMountFlags::empty())?)
}

/// Lazily, however many are on top of each other.
pub(super) fn unmount_all(path: &Path) -> io::Result<()> {
    loop {
        match unmount(path, LAZY) {
            Ok(()) => {}
            // Not, or no longer, mounted; or made by somebody who may.
            Err(Errno::INVAL | Errno::NOENT | Errno::PERM) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether something is mounted exactly there.
pub(super) fn is_mount(path: &Path) -> io::Result<bool> {
    let around = path.parent().unwrap_or(Path::new("/"));
    Ok(mount_id(path)? != mount_id(around)?)
}

fn mount_id(path: &Path) -> io::Result<u64> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?;
    Ok(found.stx_mnt_id)
}

/// Whether what is mounted at, or around, a path is shared with others.
fn is_shared(path: &Path) -> io::Result<bool> {
    let id = mount_id(path)?.to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mut lines = mounts.lines();
    let line = lines.find(|line| line.split(' ').next() == Some(&id));
    Ok(line.is_some_and(says_shared))
}

/// See `proc_pid_mountinfo(5)`: optional fields are from the seventh to a `-`.
fn says_shared(line: &str) -> bool {
    let optional = line.split(' ').skip(6).take_while(|field| *field != "-");
    optional
        .into_iter()
        .any(|field| field.starts_with("shared:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As before Linux 6.5.
    #[test]
    fn a_mount_is_exchanged_where_none_can_go_beneath() {
        let name = "a_mount_is_exchanged_where_none_can_go_beneath";
        let test = format!("provider::readers::tests::{name}");
        if !elevo_testkit::disk::in_own_namespace(&test) {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let [one, two, at] = ["one", "two", "at"].map(|name| directory.path().join(name));
        for path in [&one, &two, &at] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("name"), path.to_str().unwrap()).unwrap();
        }
        let unknown = MoveMountFlags::from_bits_retain(1 << 30);
        let name = || fs::read_to_string(at.join("name")).unwrap();
        for (source, is_first) in [(&one, true), (&two, false), (&one, false)] {
            exchange(source, &at, is_first, unknown).unwrap();
            assert_eq!(name(), source.to_str().unwrap());
        }
        unmount(&at, LAZY).unwrap();
        assert_eq!(name(), at.to_str().unwrap(), "there was one at a time");
    }

    #[test]
    fn what_a_mount_says_of_its_peers_is_understood() {
        let shared = "71 44 254:0 /a/read /a/read rw,relatime shared:2 master:1 - ext4 /dev/vda rw";
        assert!(says_shared(shared));
        assert!(!says_shared(
            "72 44 254:0 /a /b rw,relatime master:2 - ext4 shared:9 rw"
        ));
        assert!(!says_shared("72 44 254:0 /a /b rw - ext4 /dev/vda rw"));
    }
}
