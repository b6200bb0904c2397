//! How many terminals a container may have. The kernel counts those of all
//! containers together and gives out some three thousand, so that without a
//! limit one sandbox could leave no terminal to the others. No engine can be
//! asked for one: it is an option of the file system at `/dev/pts`, of which a
//! container has its own.

use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::FsPickFlags;

/// A hundred sandboxes have less than what the kernel gives out.
const MOST: &str = "30";
/// As engines mount it. What is not said again is taken back.
const AS_BEFORE: [(&str, &str); 3] = [("gid", "5"), ("mode", "0620"), ("ptmxmode", "0666")];
/// What the kernel calls this file system.
const KIND: u64 = 0x1cd1;

/// The terminals of a container.
#[derive(Debug)]
pub(super) struct Terminals(rustix::fd::OwnedFd);

impl Terminals {
    /// Those of a process. None if it has another kernel, which has terminals of
    /// its own.
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

    /// Bounds them.
    pub(super) fn bound(&self) -> rustix::io::Result<()> {
        let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
        let picked = rustix::mount::fspick(&self.0, "", flags)?;
        for (name, value) in AS_BEFORE.into_iter().chain([("max", MOST)]) {
            rustix::mount::fsconfig_set_string(&picked, name, value)?;
        }
        rustix::mount::fsconfig_reconfigure(&picked)
    }
}
