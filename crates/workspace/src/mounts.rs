//! Mounts: creates, exchanges and unmounts them.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_bind,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};

use crate::mountinfo::MountTable;

pub(crate) const LAZY: UnmountFlags = UnmountFlags::DETACH.union(UnmountFlags::NOFOLLOW);

/// Makes a directory a shared mount, so that later mounts in it propagate to
/// the containers that a part of it is bound into.
pub(crate) fn share(path: &Path) -> io::Result<()> {
    if is_shared(path)? {
        return Ok(());
    }
    if !is_mount(path)? {
        mount_bind(path, path)?;
    }
    if !is_shared(path)? {
        // Private first: otherwise the mount stays a slave of its old peers,
        // and receives their mounts too.
        mount_change(path, MountPropagationFlags::PRIVATE)?;
        mount_change(path, MountPropagationFlags::SHARED)?;
    }
    Ok(())
}

/// Whether the directory `source` is mounted on `path`.
pub(crate) fn is_mount_of(path: &Path, source: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| fs::metadata(path).map(|stat| (stat.dev(), stat.ino()));
    let (Ok(shown), Ok(wanted)) = (identity(path), identity(source)) else {
        return false;
    };
    shown == wanted && is_mount(path).is_ok_and(|is_mount| is_mount)
}

/// Makes a mount read-only.
pub(crate) fn make_read_only(path: &Path) -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount_remount(path, MountFlags::BIND | flags, "")?)
}

/// Mounts the directory `source` on `path`, on top of any mount there.
pub(crate) fn mount_clone(source: &Path, path: &Path) -> io::Result<()> {
    attach(&clone_mount(source)?, path, MoveMountFlags::empty())?;
    Ok(())
}

/// Replaces the mount on `path` by one of the directory `source`. With the flag
/// `beneath`, the new mount goes below the old one, which is then unmounted, so
/// that one of them is always visible. On a kernel that does not know the flag,
/// the old mount is unmounted first.
pub(crate) fn replace_mount(source: &Path, path: &Path, beneath: MoveMountFlags) -> io::Result<()> {
    // Cloned first: after the unmount, a failure would leave nothing visible.
    let new = clone_mount(source)?;
    match attach(&new, path, beneath) {
        Ok(()) => unmount(path, LAZY)?,
        // Before Linux 6.5.
        Err(Errno::INVAL) => {
            unmount(path, LAZY)?;
            attach(&new, path, MoveMountFlags::empty())?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn clone_mount(source: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, source, flags)
}

fn attach(new: &OwnedFd, path: &Path, flags: MoveMountFlags) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | flags;
    move_mount(new, "", CWD, path, flags)
}

/// Unmounts all mounts that are stacked on a path, lazily: files in them that
/// are open stay usable.
pub(crate) fn unmount_all(path: &Path) -> io::Result<()> {
    loop {
        match unmount(path, LAZY) {
            Ok(()) => {}
            // Not, or no longer, mounted.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            // A process that may not unmount gets this error even if nothing is
            // mounted here.
            Err(Errno::PERM) if is_mount(path).is_ok_and(|is_mount| !is_mount) => return Ok(()),
            Err(Errno::PERM) => unmount_by_helper(path)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Unmounts, lazily, all mounts of the volume that is mounted on `directory`,
/// and every overlay that keeps its changes in the volume.
pub(crate) fn unmount_volume(directory: &Path) -> io::Result<()> {
    let table = MountTable::of_self()?;
    let volume = table.iter().rev().find(|mount| mount.point() == directory);
    let device = volume.map(|mount| mount.device);
    for mount in table.iter().rev() {
        let upper = mount.upper();
        let is_above = upper.is_some_and(|upper| upper.starts_with(directory));
        if is_above || Some(mount.device) == device {
            unmount_all(&mount.point())?;
        }
    }
    Ok(())
}

/// Unmounts, lazily, everything that is mounted below `directory`.
pub(crate) fn unmount_below(directory: &Path) -> io::Result<()> {
    let table = MountTable::of_self()?;
    // The last mount is on top of the others, so it is unmounted first.
    for mount in table.iter().rev() {
        let point = mount.point();
        if point != directory && point.starts_with(directory) {
            unmount_all(&point)?;
        }
    }
    Ok(())
}

/// Unmounts a mount that `fusermount3` made.
fn unmount_by_helper(path: &Path) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    let ended = command.args(["-u", "-z", "--"]).arg(path).output()?;
    if ended.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&ended.stderr);
    Err(io::Error::other(output.trim().to_owned()))
}

/// Whether `path` is a mount point.
pub(crate) fn is_mount(path: &Path) -> io::Result<bool> {
    let around = path.parent().unwrap_or(Path::new("/"));
    Ok(mount_id(path)? != mount_id(around)?)
}

fn mount_id(path: &Path) -> io::Result<u64> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?;
    Ok(found.stx_mnt_id)
}

/// Whether the mount that contains a path is a shared mount.
fn is_shared(path: &Path) -> io::Result<bool> {
    let id = mount_id(path)?;
    let table = MountTable::of_self()?;
    let mount = table.iter().find(|mount| mount.id == id);
    Ok(mount.is_some_and(|mount| mount.is_shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses a flag that no kernel knows: the kernel rejects it as Linux before
    /// 6.5 rejects `MOVE_MOUNT_BENEATH`.
    #[test]
    fn a_mount_is_replaced_where_none_can_go_beneath() {
        let name = "a_mount_is_replaced_where_none_can_go_beneath";
        let test = format!("mounts::tests::{name}");
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
        mount_clone(&one, &at).unwrap();
        assert_eq!(name(), one.to_str().unwrap());
        for source in [&two, &one] {
            replace_mount(source, &at, unknown).unwrap();
            assert_eq!(name(), source.to_str().unwrap());
        }
        unmount(&at, LAZY).unwrap();
        assert_eq!(name(), at.to_str().unwrap(), "one was mounted at a time");
    }
}
