//! Finds the obstacles to overlays and served snapshots on Linux.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use elevo_engine::OverlayXattrs;
use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::mounts::unmount_all;
use crate::namespace::{Entrance, may_mount, try_to_enter};
use crate::provider::{OverlayOptions, mount_overlay};
use crate::trash;

/// Returns why snapshots cannot be served; `None` if they can. Root only needs
/// to open the device. Other users need `fusermount3`, which is tried with a
/// mount that no process serves.
pub(super) fn obstacle_to_serving(directory: &Path) -> Option<String> {
    let device = Path::new("/dev/fuse");
    let opened = fs::OpenOptions::new().read(true).write(true).open(device);
    let advice = match opened {
        Ok(_) if may_mount() => return None,
        Ok(_) => "install the package `fuse3`, or run as root",
        // The helper opens the device with the rights of its caller.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            "run `chmod 0666 /dev/fuse` as root"
        }
        Err(error) => {
            return Some(format!(
                "cannot open {} ({error}); load the kernel module `fuse`, or give the \
                 container the device",
                device.display()
            ));
        }
    };
    let error = try_helper(directory).err()?;
    let directory = directory.display();
    Some(format!(
        "`fusermount3` cannot mount in {directory} ({error}); {advice}"
    ))
}

fn try_helper(directory: &Path) -> io::Result<()> {
    let scratch = directory.join(format!("probe-lazy-{}", std::process::id()));
    fs::create_dir(&scratch)?;
    let try_it = || {
        let (_ours, theirs) = UnixStream::pair()?;
        let ended = Command::new("fusermount3")
            .arg("--")
            .arg(&scratch)
            .env("_FUSE_COMMFD", "0")
            .stdin(OwnedFd::from(theirs))
            .output()?;
        let output = String::from_utf8_lossy(&ended.stderr);
        match ended.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(output.trim().to_owned())),
        }
    };
    let tried = try_it();
    let _ = unmount_all(&scratch);
    let _ = fs::remove_dir(&scratch);
    tried
}

/// Returns why overlays cannot be mounted; `None` if they can.
pub(super) fn obstacle_to_overlays(directory: &Path) -> Option<String> {
    let scratch = directory.join(format!("probe-overlay-{}", std::process::id()));
    let tried = try_an_overlay(&scratch);
    let _ = unmount_all(&scratch.join("files"));
    let _ = fs::remove_dir_all(&scratch);
    let error = tried.err()?;
    let advice = match error.raw_os_error() {
        Some(code) if code == Errno::PERM.raw_os_error() => "run as root",
        Some(code) if code == Errno::NODEV.raw_os_error() => "load the kernel module `overlay`",
        _ => "keep workspaces on ext4, XFS or btrfs, outside of containers",
    };
    Some(format!(
        "cannot mount an overlay in {} ({error}); {advice}",
        directory.display()
    ))
}

fn create_directories(scratch: &Path) -> io::Result<()> {
    for name in ["lower", "upper", "work", "files"] {
        fs::create_dir_all(scratch.join(name))?;
    }
    Ok(())
}

/// Mounts an overlay and renames a directory in it, which needs whiteouts and
/// extended attributes.
fn try_an_overlay(scratch: &Path) -> io::Result<()> {
    create_directories(scratch)?;
    let lower = scratch.join("lower");
    fs::create_dir(lower.join("directory"))?;
    let files = scratch.join("files");
    let options = OverlayOptions {
        marks: OverlayXattrs::Trusted,
        is_indexed: false,
    };
    mount_overlay(&[&lower], scratch, &files, options, MountFlags::empty())?;
    fs::rename(files.join("directory"), files.join("renamed"))
}

/// Returns why an overlay in a user namespace does not work; `None` if it does.
/// Deletes a file in one, which needs a whiteout.
pub(super) fn obstacle_to_entering(directory: &Path) -> Option<String> {
    let scratch = directory.join(format!("probe-rootless-{}", std::process::id()));
    let entrance = Entrance {
        lowers: vec![scratch.join("lower")],
        room: scratch.clone(),
        inode: 0,
        files: scratch.join("files"),
    };
    let tried = create_directories(&scratch).and_then(|()| {
        fs::write(scratch.join("lower/file"), "")?;
        try_to_enter(&entrance, "file")
    });
    let _ = trash::delete(&scratch, &directory.join("probe-trash"));
    let _ = fs::remove_dir(directory.join("probe-trash"));
    let error = tried.err()?;
    Some(format!(
        "cannot mount an overlay in a user namespace in {} ({error}); {}",
        directory.display(),
        advice_for_namespaces(&error, directory)
    ))
}

/// Returns the remedy for the usual obstacles to user namespaces and mounts in
/// them.
fn advice_for_namespaces(error: &io::Error, directory: &Path) -> String {
    const SETTINGS: [(&str, &str, &str); 3] = [
        ("user.max_user_namespaces", "0", "10000"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    let forbids = |(name, bad, _): &&(&str, &str, &str)| {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        fs::read_to_string(path).is_ok_and(|text| text.trim() == *bad)
    };
    if let Some((name, _, good)) = SETTINGS.iter().find(forbids) {
        return format!("run `sysctl {name}={good}` as root");
    }
    let group = fs::metadata(directory).map(|stat| (stat.mode(), stat.gid()));
    let ours = rustix::process::getegid().as_raw();
    if group.is_ok_and(|(mode, group)| mode & 0o2000 != 0 && group != ours) {
        return "new files there belong to another group; use a directory without the setgid \
                bit"
        .into();
    }
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    if is(Errno::NODEV) {
        return "load the kernel module `overlay`".into();
    }
    if is(Errno::PERM) || is(Errno::ACCESS) || is(Errno::NOSPC) {
        return "needs Linux 5.11, and a container needs the right to create user namespaces"
            .into();
    }
    "keep workspaces on ext4, XFS or btrfs".into()
}
