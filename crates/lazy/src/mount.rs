//! Mounts a snapshot, directly or with `fusermount3`, and unmounts it.

use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use elevo_engine::{NumberedTree, Repository};
use elevo_objects::{Mode, Snapshot};
use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::fs::{AtFlags, CWD, Mode as Bits, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::files::Files;

/// The device over which the kernel sends requests.
const DEVICE: &str = "/dev/fuse";

/// Maximum bytes of chunks that are cached. The kernel requests ranges that
/// start and end within chunks, so two requests often need the same chunk.
const CHUNK_CACHE_BYTES: u64 = 16 << 20;

/// Read-ahead of sequential reads, in KiB.
const READ_AHEAD_KIB: u32 = 16 << 10;

/// Settings of a mounted snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The user and group of all files.
    pub owner: (u32, u32),
    /// Whether other users than the one that mounts the snapshot may access it.
    /// Ignored if `fusermount3` mounts it: then other users may not.
    pub for_all: bool,
    /// The permission bits of its root.
    pub mode: Mode,
    /// The modification time of files without a known one.
    pub unknown_time: SystemTime,
    /// Number of requests that are served in parallel.
    pub threads: usize,
}

impl Options {
    /// Settings for a mount that all users may access, with mode 0755 for its
    /// root, and 1970 for files without a time.
    pub const fn new(owner: (u32, u32), threads: usize) -> Self {
        Self {
            owner,
            for_all: true,
            mode: Mode::from_bits(0o755),
            unknown_time: SystemTime::UNIX_EPOCH,
            threads,
        }
    }
}

/// A mounted snapshot.
#[derive(Debug)]
pub struct Mount {
    session: BackgroundSession,
    at: PathBuf,
}

/// Mounts `snapshot` at the directory `at`, and serves it in threads of this
/// process until it is unmounted. For users who may not mount, `fusermount3`
/// does it. Reads of the store run in the Tokio runtime of the caller, if there
/// is one.
pub fn mount(
    repository: &Repository,
    snapshot: &Snapshot,
    at: &Path,
    options: Options,
) -> io::Result<Mount> {
    let repository = repository.keep_chunks(CHUNK_CACHE_BYTES);
    let numbered = NumberedTree::new(&repository, snapshot, options.mode);
    let mut config = Config::default();
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = options.threads > 1;
    let acl = match options.for_all {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    let device = match mount_device(at, options.for_all) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => mount_by_helper(at)?,
        device => device?,
    };
    // The mount is visible from here on, and every access to it waits for a
    // response. A failure must unmount it.
    let serving = Session::from_fd(Files::new(numbered, options), device, acl, config)
        .and_then(Session::spawn);
    match serving {
        Ok(session) => {
            // A failure only makes sequential reads slower.
            let _ = raise_read_ahead(at);
            Ok(Mount {
                session,
                at: at.into(),
            })
        }
        Err(error) => {
            let _ = unmount_at(at, UnmountFlags::DETACH);
            Err(error)
        }
    }
}

/// Mounts the device. This is not left to `fuser`, because a session of `fuser`
/// that created its own mount unmounts its path when it ends, even
/// a mount that replaced its own.
fn mount_device(at: &Path, for_all: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open(DEVICE, flags, Bits::empty()).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot open {DEVICE}: {error}"))
    })?;
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

/// The set-user-id program that mounts FUSE file systems for all users.
const HELPER: &str = "fusermount3";

/// Mounts with the help of `fusermount3`. Other users cannot access the mount.
fn mount_by_helper(at: &Path) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(HELPER);
    command
        .arg("-o")
        .arg("ro,nosuid,nodev,noatime,default_permissions,fsname=elevo,subtype=elevo")
        .arg("--")
        .arg(at)
        // The helper sends the device over its standard input.
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs));
    run(&mut command)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(
        &ours,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        flags,
    )?;
    let mut devices = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut devices) => devices.next(),
        _ => None,
    });
    let device = devices.next();
    device.ok_or_else(|| io::Error::other(format!("`{HELPER}` did not send a FUSE device")))
}

/// Unmounts a snapshot. If this process may not unmount, the helper does it.
fn unmount_at(at: &Path, flags: UnmountFlags) -> io::Result<()> {
    match unmount(at, flags) {
        Err(Errno::PERM) => run(Command::new(HELPER).args(["-u", "-z", "--"]).arg(at)),
        done => Ok(done?),
    }
}

/// Runs the helper; an error contains its output.
fn run(command: &mut Command) -> io::Result<()> {
    let failed = |error: io::Error| {
        let text = format!("cannot run `{HELPER}`, which users other than root need: {error}");
        io::Error::new(error.kind(), text)
    };
    let ended = command.output().map_err(failed)?;
    if ended.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&ended.stderr);
    Err(io::Error::other(output.trim().to_owned()))
}

/// Raises the read-ahead above the maximum that a FUSE file system may request,
/// so that the kernel sends more and larger requests at once.
fn raise_read_ahead(at: &Path) -> io::Result<()> {
    // `DONT_SYNC` avoids a request to this process itself: if the process is
    // killed during such a request, it waits for ever.
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, at, flags, StatxFlags::empty())?;
    let (major, minor) = (found.stx_dev_major, found.stx_dev_minor);
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    std::fs::write(setting, READ_AHEAD_KIB.to_string())
}

impl Mount {
    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Waits until the snapshot is unmounted.
    pub fn join(self) -> io::Result<()> {
        self.session.join()
    }

    /// Unmounts the snapshot. Fails if it is in use, unless it was mounted by
    /// the helper.
    pub fn unmount(self) -> io::Result<()> {
        unmount_at(&self.at, UnmountFlags::NOFOLLOW)?;
        self.session.join()
    }
}
