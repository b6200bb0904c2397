//! Mounts: creates, exchanges and unmounts them.

use std::fs;
use std::io;
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

/// Shares a directory, so that later mounts in it reach the containers that have a
/// part of it.
pub(crate) fn share(path: &Path) -> io::Result<()> {
    if is_shared(path)? {
        return Ok(());
    }
    if !is_mount(path)? {
        mount_bind(path, path)?;
    }
    if !is_shared(path)? {
        mount_change(path, MountPropagationFlags::PRIVATE)?;
        mount_change(path, MountPropagationFlags::SHARED)?;
    }
    Ok(())
}

/// Whether the directory `source` is mounted on `path`.
pub(crate) fn shows(path: &Path, source: &Path) -> bool {
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

/// Mounts the directory `source` on `path`. Replaces the mount that is there, unless
/// it is the first. With the flag `beneath` the kernel puts the new mount below the
/// old one, if it supports the flag.
pub(crate) fn exchange(
    source: &Path,
    path: &Path,
    is_first: bool,
    beneath: MoveMountFlags,
) -> io::Result<()> {
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

/// Unmounts lazily all mounts that are stacked on a path.
pub(crate) fn unmount_all(path: &Path) -> io::Result<()> {
    loop {
        match unmount(path, LAZY) {
            Ok(()) => {}
            // Not, or no longer, mounted.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            // Without the right to unmount we had no right to mount either.
            Err(Errno::PERM) if is_mount(path).is_ok_and(|is_mount| !is_mount) => return Ok(()),
            Err(Errno::PERM) => unmount_helped(path)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Unmounts, lazily, the volume that is mounted on `directory`, wherever else a
/// part of it is mounted, and every overlay that keeps its changes in it.
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
    // The last one is on top of the others.
    for mount in table.iter().rev() {
        let point = mount.point();
        if point != directory && point.starts_with(directory) {
            unmount_all(&point)?;
        }
    }
    Ok(())
}

/// Unmounts a mount that `fusermount3` made.
fn unmount_helped(path: &Path) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    let ended = command.args(["-u", "-z", "--"]).arg(path).output()?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(io::Error::other(said.trim().to_owned()))
}

/// Whether something is mounted exactly there.
pub(crate) fn is_mount(path: &Path) -> io::Result<bool> {
    let around = path.parent().unwrap_or(Path::new("/"));
    Ok(mount_id(path)? != mount_id(around)?)
}

fn mount_id(path: &Path) -> io::Result<u64> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?;
    Ok(found.stx_mnt_id)
}

/// Whether the mount that contains a path is shared with others.
fn is_shared(path: &Path) -> io::Result<bool> {
    let id = mount_id(path)?;
    let table = MountTable::of_self()?;
    let mount = table.iter().find(|mount| mount.id == id);
    Ok(mount.is_some_and(|mount| mount.is_shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As before Linux 6.5.
    #[test]
    fn a_mount_is_exchanged_where_none_can_go_beneath() {
        let name = "a_mount_is_exchanged_where_none_can_go_beneath";
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
        for (source, is_first) in [(&one, true), (&two, false), (&one, false)] {
            exchange(source, &at, is_first, unknown).unwrap();
            assert_eq!(name(), source.to_str().unwrap());
        }
        unmount(&at, LAZY).unwrap();
        assert_eq!(name(), at.to_str().unwrap(), "there was one at a time");
    }
}
