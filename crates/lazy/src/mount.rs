use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use elevo_engine::{Numbered, Repository};
use elevo_objects::{Mode, Snapshot};
use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::fs::{AtFlags, CWD, Mode as Bits, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::files::Files;

/// What the kernel asks us by.
const DEVICE: &str = "/dev/fuse";

/// Bytes of files that are kept in memory: the kernel asks for pieces that begin
/// and end within chunks.
const CHUNKS: u64 = 16 << 20;

/// How far ahead of whoever reads in order.
const READ_AHEAD_KIB: u32 = 16 << 10;

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

impl Options {
    /// One that everybody may look at, with 0755 for its root and 1970 for what
    /// has no time.
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

/// A snapshot that is mounted.
#[derive(Debug)]
pub struct Mount {
    session: BackgroundSession,
    at: PathBuf,
}

/// Mounts `snapshot` at the directory `at`, and serves it from threads of this
/// process until somebody unmounts it. Who may not mount is helped by
/// `fusermount3`. If the caller is inside a Tokio runtime, stores that need it
/// find it.
pub fn mount(
    repository: &Repository,
    snapshot: &Snapshot,
    at: &Path,
    options: Options,
) -> io::Result<Mount> {
    let repository = repository.keep_chunks(CHUNKS);
    let numbered = Numbered::new(&repository, snapshot, options.mode);
    let mut config = Config::default();
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = options.threads > 1;
    let acl = match options.for_all {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    let device = match attach(at, options.for_all) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => helped(at)?,
        device => device?,
    };
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
            let _ = take_away(at, UnmountFlags::DETACH);
            Err(error)
        }
    }
}

/// Mounts what is asked for over a device. By ourselves: when a session of
/// `fuser` ends that mounted itself, it unmounts whatever is at its path by then.
fn attach(at: &Path, for_all: bool) -> io::Result<OwnedFd> {
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

/// The program that mounts file systems of this kind for everybody.
const HELPER: &str = "fusermount3";

/// Has it mounted by somebody who may. No others can look at it then.
fn helped(at: &Path) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(HELPER);
    command
        .arg("-o")
        .arg("ro,nosuid,nodev,noatime,default_permissions,fsname=elevo,subtype=elevo")
        .arg("--")
        .arg(at)
        // It sends the device over its standard input.
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
    device.ok_or_else(|| io::Error::other(format!("{HELPER} has sent no device")))
}

fn take_away(at: &Path, flags: UnmountFlags) -> io::Result<()> {
    match unmount(at, flags) {
        Err(Errno::PERM) => run(Command::new(HELPER).args(["-u", "-z", "--"]).arg(at)),
        done => Ok(done?),
    }
}

/// Runs the helper; fails with what it says.
fn run(command: &mut Command) -> io::Result<()> {
    let failed = |error: io::Error| {
        let text = format!("without root this needs `{HELPER}`, which cannot be run: {error}");
        io::Error::new(error.kind(), text)
    };
    let ended = command.output().map_err(failed)?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(io::Error::other(said.trim().to_owned()))
}

/// Has the kernel ask for more at a time, and for several of that at once, than
/// file systems of this kind may ask for themselves.
fn read_far_ahead(at: &Path) -> io::Result<()> {
    // Without asking ourselves: who is killed meanwhile would wait for ever.
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, at, flags, StatxFlags::empty())?;
    let (major, minor) = (found.stx_dev_major, found.stx_dev_minor);
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

    /// Takes it away. Fails if it is in use, unless it was mounted with help.
    pub fn unmount(self) -> io::Result<()> {
        take_away(&self.at, UnmountFlags::NOFOLLOW)?;
        self.session.join()
    }
}
