//! Mounts: creates, exchanges and unmounts them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_bind,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};

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
    let mounts = fs::read("/proc/self/mountinfo")?;
    let mounts: Vec<_> = mounts
        .split(|byte| *byte == b'\n')
        .filter_map(Mount::read)
        .collect();
    let volume = mounts.iter().rev().find(|mount| mount.path == directory);
    let device = volume.map(|mount| mount.device);
    for mount in mounts.iter().rev() {
        let is_above = mount
            .upper
            .as_ref()
            .is_some_and(|upper| upper.starts_with(directory));
        if is_above || Some(mount.device) == device {
            unmount_all(&mount.path)?;
        }
    }
    Ok(())
}

/// Unmounts, lazily, everything that is mounted below `directory`.
pub(crate) fn unmount_below(directory: &Path) -> io::Result<()> {
    let mounts = fs::read("/proc/self/mountinfo")?;
    let mounts: Vec<_> = mounts
        .split(|byte| *byte == b'\n')
        .filter_map(Mount::read)
        .collect();
    // The last one is on top of the others.
    for mount in mounts.iter().rev() {
        if mount.path != directory && mount.path.starts_with(directory) {
            unmount_all(&mount.path)?;
        }
    }
    Ok(())
}

/// A line of `proc_pid_mountinfo(5)`.
struct Mount<'a> {
    path: PathBuf,
    device: &'a [u8],
    /// Where an overlay keeps its changes.
    upper: Option<PathBuf>,
}

impl<'a> Mount<'a> {
    fn read(line: &'a [u8]) -> Option<Self> {
        let path = |text: &[u8]| PathBuf::from(OsString::from_vec(unescaped(text)));
        let mut fields = line.split(|byte| *byte == b' ');
        let device = fields.nth(2)?;
        let at = fields.nth(1)?;
        let mut options = fields.next_back()?.split(|byte| *byte == b',');
        let upper = options.find_map(|option| option.strip_prefix(b"upperdir="));
        Some(Self {
            path: path(at),
            device,
            upper: upper.map(path),
        })
    }
}

/// Returns a text of `/proc` without its escapes, a backslash and three octal digits
/// each.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(escaped.unwrap_or(byte));
        rest = match escaped {
            Some(_) => &after[3..],
            None => after,
        };
    }
    plain
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

    #[test]
    fn a_mount_is_read_without_escapes() {
        let line = br"65 43 0:39 / /a\040b/files rw - overlay overlay rw,lowerdir=/l,upperdir=/a\040b/upper,workdir=/w";
        let mount = Mount::read(line).unwrap();
        assert_eq!(mount.path, Path::new("/a b/files"));
        assert_eq!(mount.device, b"0:39");
        assert_eq!(mount.upper.unwrap(), Path::new("/a b/upper"));
        assert!(Mount::read(b"").is_none());
        assert_eq!(unescaped(br"\134\\0"), br"\\\0");
    }

    #[test]
    fn reads_the_peers_of_a_mount() {
        let shared = "71 44 254:0 /a/read /a/read rw,relatime shared:2 master:1 - ext4 /dev/vda rw";
        assert!(says_shared(shared));
        assert!(!says_shared(
            "72 44 254:0 /a /b rw,relatime master:2 - ext4 shared:9 rw"
        ));
        assert!(!says_shared("72 44 254:0 /a /b rw - ext4 /dev/vda rw"));
    }
}
