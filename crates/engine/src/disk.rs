//! File system access, only from a directory that is held open and never
//! through a symbolic link.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use elevo_core::{Name, Timestamp, TreePath};
use rustix::fs::{AtFlags, Mode as Bits, OFlags, Stat};
use rustix::io::Errno;

/// The directory that all access is relative to.
#[derive(Debug)]
pub(crate) struct RootDirectory(OwnedFd);

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl RootDirectory {
    /// Opens the directory at `path`, which the caller trusts.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Bits::empty())?))
    }

    /// Opens a directory below, rejecting every symbolic link on the way.
    pub(crate) fn open_directory(&self, path: &TreePath) -> io::Result<OwnedFd> {
        if path.is_root() {
            return Ok(rustix::fs::openat(&self.0, c".", DIRECTORY, Bits::empty())?);
        }
        match self.open_beneath(path) {
            Err(Errno::NOSYS | Errno::PERM) => self.step_by_step(path),
            other => Ok(other?),
        }
    }

    #[cfg(target_os = "linux")]
    fn open_beneath(&self, path: &TreePath) -> rustix::io::Result<OwnedFd> {
        use rustix::fs::ResolveFlags;
        const BENEATH: ResolveFlags = ResolveFlags::BENEATH
            .union(ResolveFlags::NO_SYMLINKS)
            .union(ResolveFlags::NO_MAGICLINKS);
        loop {
            let opened =
                rustix::fs::openat2(&self.0, path.as_bytes(), DIRECTORY, Bits::empty(), BENEATH);
            match opened {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open_beneath(&self, _: &TreePath) -> rustix::io::Result<OwnedFd> {
        Err(Errno::NOSYS)
    }

    /// Fallback without `openat2`: opens one name at a time.
    fn step_by_step(&self, path: &TreePath) -> io::Result<OwnedFd> {
        let mut directory = self.open_directory(&TreePath::root())?;
        for name in path.names() {
            directory = rustix::fs::openat(&directory, name.as_bytes(), DIRECTORY, Bits::empty())?;
        }
        Ok(directory)
    }
}

/// Keeps the directory of the last lookup open, for lookups of its other
/// entries.
pub(crate) struct Parents<'a> {
    root: &'a RootDirectory,
    last: Option<(TreePath, OwnedFd)>,
}

impl<'a> Parents<'a> {
    pub(crate) fn new(root: &'a RootDirectory) -> Self {
        Self { root, last: None }
    }

    /// Returns the directory that contains `path`, and the name of `path` in
    /// it.
    pub(crate) fn of(&mut self, path: &TreePath) -> io::Result<(BorrowedFd<'_>, Name)> {
        let (parent, name) = path
            .split_last()
            .ok_or_else(|| io::Error::other("the root has no parent"))?;
        let known = self.last.take_if(|(known, _)| *known == parent);
        let fd = match known {
            Some((_, fd)) => fd,
            None => self.root.open_directory(&parent)?,
        };
        let (_, fd) = self.last.insert((parent, fd));
        Ok(((*fd).as_fd(), name))
    }

    /// Returns the metadata of `path` without following a link; `None` if it
    /// does not exist or a component on the way is not a directory.
    pub(crate) fn stat(&mut self, path: &TreePath) -> io::Result<Option<Stat>> {
        let (parent, name) = match self.of(path) {
            Ok(found) => found,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match rustix::fs::statat(parent, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Number of a device.
pub(crate) type Device = rustix::fs::Dev;

/// Whether a directory's times change whenever a name is added or removed.
#[cfg(target_os = "linux")]
pub(crate) fn tells_changed_names(directory: impl AsFd) -> bool {
    const EXT4: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    const TMPFS: u64 = 0x0102_1994;
    const F2FS: u64 = 0xf2f5_2010;
    let found = rustix::fs::fstatfs(directory);
    found.is_ok_and(|found| [EXT4, XFS, BTRFS, TMPFS, F2FS].contains(&(found.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn tells_changed_names(_: impl AsFd) -> bool {
    false
}

/// Whether an error means that nothing exists at a path: no such name, or a
/// link or file in place of a directory.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Converts permission bits to the type of the system's calls, which differ in
/// width.
#[allow(clippy::unnecessary_cast, reason = "not on every system")]
pub(crate) fn bits(mode: u32) -> Bits {
    Bits::from_raw_mode(mode as rustix::fs::RawMode)
}

/// Returns the kind and permission bits.
#[allow(clippy::unnecessary_cast, reason = "not on every system")]
pub(crate) fn mode(stat: &Stat) -> u32 {
    stat.st_mode as u32
}

/// Returns the time of the last modification.
pub(crate) fn modified(stat: &Stat) -> Option<Timestamp> {
    Timestamp::new(stat.st_mtime, stat.st_mtime_nsec.try_into().ok()?)
}

/// Reads up to `limit` bytes from the current position of `file`.
pub(crate) fn read_up_to(file: impl AsFd, limit: usize) -> io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(limit);
    while data.len() < limit {
        match rustix::io::read(&file, rustix::buffer::spare_capacity(&mut data)) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    data.truncate(limit);
    Ok(data)
}

/// Whether there are extended attributes other than those of overlayfs.
pub(crate) fn has_attributes(fd: BorrowedFd<'_>) -> bool {
    let names = attributes(fd).unwrap_or_default();
    let mut names = names.split(|byte| *byte == 0);
    names.any(|name| {
        let overlay = name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.");
        !name.is_empty() && !overlay
    })
}

/// Returns the names of extended attributes, each followed by a NUL.
pub(crate) fn attributes(fd: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut names = vec![0; 256];
    loop {
        match rustix::fs::flistxattr(fd, &mut names[..]) {
            Ok(length) => {
                names.truncate(length);
                return Ok(names);
            }
            Err(Errno::RANGE) if names.len() < LONGEST_ATTRIBUTE_LIST => {
                names.resize(LONGEST_ATTRIBUTE_LIST, 0);
            }
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Maximum bytes of the attribute names of a file: the limit of Linux.
const LONGEST_ATTRIBUTE_LIST: usize = 64 << 10;
