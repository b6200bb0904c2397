//! Attributes of an entry: owner, mode, time.

use std::io;
use std::os::fd::AsFd;

use elevo_core::{Name, Timestamp, TreePath};
use rustix::fs::{AtFlags, Gid, Mode as Bits, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid};

use super::Owner;
use crate::disk::RootDirectory;

/// Changes the owner of an open file, if another owner is configured.
pub(super) fn set_owner(fd: impl AsFd, owner: Option<Owner>) -> io::Result<()> {
    if let Some(owner) = owner {
        let (uid, gid) = ids(owner);
        rustix::fs::fchown(fd, Some(uid), Some(gid))?;
    }
    Ok(())
}

/// Changes the owner of a name in `parent`, without following a link.
pub(super) fn set_owner_at(parent: impl AsFd, name: &Name, owner: Option<Owner>) -> io::Result<()> {
    if let Some(owner) = owner {
        let (uid, gid) = ids(owner);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(parent, name.as_bytes(), Some(uid), Some(gid), flags)?;
    }
    Ok(())
}

fn ids(owner: Owner) -> (Uid, Gid) {
    let uid = Uid::from_raw_unchecked(owner.uid);
    (uid, Gid::from_raw_unchecked(owner.gid))
}

pub(super) fn timestamps(modified: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: modified.seconds(),
            tv_nsec: modified.nanos().into(),
        },
    }
}

pub(super) fn set_modified(fd: impl AsFd, modified: Option<Timestamp>) -> io::Result<()> {
    if let Some(time) = modified {
        rustix::fs::futimens(fd, &timestamps(time))?;
    }
    Ok(())
}

/// Creates an unnamed file to find the umask, since the system call that
/// returns the mask also sets it, for all threads.
#[cfg(target_os = "linux")]
pub(super) fn probe_umask(root: &RootDirectory) -> io::Result<u32> {
    let directory = root.open_directory(&TreePath::root())?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(directory, c".", flags, Bits::from_raw_mode(0o777))?;
    Ok(!rustix::fs::fstat(fd)?.st_mode & 0o777)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn probe_umask(_: &RootDirectory) -> io::Result<u32> {
    Err(io::ErrorKind::Unsupported.into())
}
