use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use elevo_engine::{Numbered, Repository};
use elevo_objects::{Mode, Snapshot};
use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::fs::{Mode as Bits, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, unmount};

use crate::files::Files;

/// How far ahead of whoever reads in order.
const READ_AHEAD_KIB: u32 = 4096;

/// How a snapshot is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whose all of it is: user and group.
    pub owner: (u32, u32),
    /// Whether others than whoever mounts it may look at it.
    pub for_all: bool,
    /// The permission bits of its root.
    pub mode: Mode,
    /// When what has no known time was last modified.
    pub unknown_time: SystemTime,
    /// How many requests are answered at a time.
    pub threads: usize,
}

/// A snapshot that is mounted.
#[derive(Debug)]
pub struct Mount {
    session: BackgroundSession,
    at: PathBuf,
}

/// Mounts `snapshot` at the directory `at`, and serves it from threads of this
/// process until somebody unmounts it. Needs root. If the caller is inside a
/// Tokio runtime, stores that need it find it.
pub fn mount(
    repository: &Repository,
    snapshot: &Snapshot,
    at: &Path,
    options: Options,
) -> io::Result<Mount> {
    let numbered = Numbered::new(repository, snapshot, options.mode);
    let mut config = Config::default();
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = options.threads > 1;
    let acl = match options.for_all {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    let device = attach(at, options.for_all)?;
    // The kernel waits for the first answers, from here on.
    let serving = Session::from_fd(Files::new(numbered, options), device, acl, config)
        .and_then(Session::spawn);
    match serving {
        Ok(session) => {
            // Without it, reading in order is slower.
            let _ = read_far_ahead(at);
            Ok(Mount {
                session,
                at: at.into(),
            })
        }
        Err(error) => {
            let _ = unmount(at, UnmountFlags::DETACH);
            Err(error)
        }
    }
}

/// Mounts what is asked for over a device. By ourselves: when a session of
/// `fuser` ends that mounted itself, it unmounts whatever is at its path by then.
fn attach(at: &Path, for_all: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Bits::empty())?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if for_all {
        data.push_str(",allow_other");
    }
    let data = CString::new(data)?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    rustix::mount::mount("elevo", at, "fuse.elevo", flags, Some(data.as_c_str()))?;
    Ok(device)
}

/// Has the kernel ask for more at a time, and for several of that at once, than
/// file systems of this kind may ask for themselves.
fn read_far_ahead(at: &Path) -> io::Result<()> {
    let device = rustix::fs::stat(at)?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    std::fs::write(setting, READ_AHEAD_KIB.to_string())
}

impl Mount {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Waits until somebody has unmounted it.
    pub fn join(self) -> io::Result<()> {
        self.session.join()
    }

    /// Takes it away. Fails if it is in use.
    pub fn unmount(self) -> io::Result<()> {
        unmount(&self.at, UnmountFlags::NOFOLLOW)?;
        self.session.join()
    }
}
