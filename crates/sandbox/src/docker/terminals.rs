//! Limits the terminals of a container. The kernel counts the terminals of all
//! containers together and allows about three thousand, so without a limit one
//! sandbox could take all of them. Engines have no setting for this limit. It
//! is an option of the file system at `/dev/pts`, which each container has
//! separately.

use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::FsPickFlags;

/// Maximum terminals of a container: a hundred sandboxes stay below the
/// kernel's limit.
const MOST: &str = "30";
/// The mount options that the engine sets. They are set again, because the
/// kernel resets options that are not repeated.
const AS_BEFORE: [(&str, &str); 3] = [("gid", "5"), ("mode", "0620"), ("ptmxmode", "0666")];
/// The magic number of devpts.
const KIND: u64 = 0x1cd1;

/// The terminals of a container.
#[derive(Debug)]
pub(super) struct Terminals(rustix::fd::OwnedFd);

impl Terminals {
    /// Returns the terminals of a process; `None` if the process runs on
    /// another kernel with separate terminals (`runsc`).
    pub(super) fn of(pid: u32) -> rustix::io::Result<Option<Self>> {
        let path = format!("/proc/{pid}/root/dev/pts");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(CWD, Path::new(&path), flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let kind = rustix::fs::fstatfs(&opened)?.f_type;
        Ok((u64::try_from(kind) == Ok(KIND)).then_some(Self(opened)))
    }

    /// Sets the limit.
    pub(super) fn bound(&self) -> rustix::io::Result<()> {
        let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
        let picked = rustix::mount::fspick(&self.0, "", flags)?;
        for (name, value) in AS_BEFORE.into_iter().chain([("max", MOST)]) {
            rustix::mount::fsconfig_set_string(&picked, name, value)?;
        }
        rustix::mount::fsconfig_reconfigure(&picked)
    }
}
