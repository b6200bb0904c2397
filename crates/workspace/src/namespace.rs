//! Overlays for users who may not mount. They are mounted in a user namespace,
//! in which every user may mount. Such a mount is visible only to the processes
//! in the namespace, and ends with the last of them.
//!
//! Namespaces are not recorded anywhere: `/proc` lists the processes that have
//! a workspace mounted.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use elevo_engine::OverlayXattrs;
use rustix::fs::{CWD, Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};
use rustix::mount::{MountFlags, mount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::lock;
use crate::mountinfo::{Mount, MountTable};
use crate::provider::{OverlayOptions, overlay_options};

/// The way into a private workspace, for a process that calls
/// [`enter`](Self::enter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// The lower directories, the first on top.
    pub lowers: Vec<PathBuf>,
    /// The directory with the upper, the work directory and the lock.
    pub room: PathBuf,
    /// The inode of `room`, to detect that the workspace was removed and
    /// created again.
    pub inode: u64,
    /// The mount point.
    pub files: PathBuf,
}

/// A process that has an overlay mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) pid: u32,
    /// The mount point in the process's namespace.
    mount_point: PathBuf,
}

/// Number of attempts to find a process whose namespaces can be joined, and the
/// pause between them.
const ATTEMPTS: usize = 40;
const PAUSE: Duration = Duration::from_millis(5);

impl Entrance {
    /// Makes the workspace visible to this process and its children: in the
    /// namespaces of the processes that are already inside, or else in new
    /// ones. This process must have only one thread.
    pub fn enter(&self) -> io::Result<()> {
        let prepared = Prepared::new(self)?;
        // Held until this process is listed among the users of the workspace:
        // two processes that enter at once would mount two overlays with one
        // upper otherwise.
        let _entering = lock_entrance(&self.room)?;
        if fs::metadata(&self.room)?.ino() != self.inode {
            let gone = "the workspace was removed and created again; retry";
            return Err(io::Error::new(io::ErrorKind::NotFound, gone));
        }
        let mut attempts = 0;
        loop {
            let users = users_of(&self.room.join("upper"))?;
            let Some(first) = users.first() else {
                return Ok(prepared.enter()?);
            };
            let mut fitting = users.iter().filter(|user| user.mount_point == self.files);
            if let Some(namespaces) = fitting.find_map(Namespaces::of) {
                namespaces.join()?;
                return is_served(&self.files);
            }
            // A process that is exiting is still listed, but its namespaces
            // cannot be opened any more. It disappears within milliseconds.
            attempts += 1;
            if attempts == ATTEMPTS {
                return Err(io::Error::other(format!(
                    "process {} has it mounted at {} in a namespace that this process cannot join; \
                     stop it first",
                    first.pid,
                    first.mount_point.display()
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Waits for the lock that keeps other processes from entering a workspace or
/// removing it. `changes` is the directory with the upper.
pub(crate) fn lock_entrance(changes: &Path) -> io::Result<File> {
    lock::exclusive(&changes.join("entering"))
}

/// The namespaces of a process that has entered a workspace.
struct Namespaces {
    user: OwnedFd,
    mount: OwnedFd,
}

impl Namespaces {
    /// Returns the namespaces of a process, if they are children of ours and
    /// were created by our user. The creator of any other namespace decides
    /// which files are visible in it.
    fn of(user: &User) -> Option<Self> {
        let directory = Path::new("/proc").join(user.pid.to_string()).join("ns");
        let open =
            |path: PathBuf| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let found = Self {
            user: open(directory.join("user")).ok()?,
            mount: open(directory.join("mnt")).ok()?,
        };
        let ours = open("/proc/self/ns/user".into()).ok()?;
        let is_same = |one: &OwnedFd, other: &OwnedFd| {
            let identity = |fd| fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
            matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
        };
        let is_ours = owner_of(&found.user).ok()? == rustix::process::geteuid().as_raw()
            && is_same(&related_namespace(&found.user, PARENT).ok()?, &ours)
            && is_same(
                &related_namespace(&found.mount, OWNING_USER).ok()?,
                &found.user,
            );
        is_ours.then_some(found)
    }

    fn join(&self) -> io::Result<()> {
        // The user namespace first: it gives the right to join the other.
        move_into_link_name_space(self.user.as_fd(), Some(LinkNameSpaceType::User))?;
        move_into_link_name_space(self.mount.as_fd(), Some(LinkNameSpaceType::Mount))?;
        Ok(())
    }
}

// See `ioctl_nsfs(2)`.
const OWNING_USER: Opcode = opcode::none(0xb7, 1);
const PARENT: Opcode = opcode::none(0xb7, 2);
const OWNER: Opcode = opcode::none(0xb7, 4);

/// Returns the parent of a namespace, or the user namespace that owns it.
fn related_namespace(of: &OwnedFd, which: Opcode) -> io::Result<OwnedFd> {
    /// An ioctl that returns a descriptor.
    struct Related(Opcode);

    // SAFETY: these take no argument and return a new descriptor.
    unsafe impl Ioctl for Related {
        type Output = OwnedFd;
        const IS_MUTATING: bool = false;

        fn opcode(&self) -> Opcode {
            self.0
        }

        fn as_ptr(&mut self) -> *mut std::ffi::c_void {
            std::ptr::null_mut()
        }

        unsafe fn output_from_ptr(
            out: IoctlOutput,
            _: *mut std::ffi::c_void,
        ) -> rustix::io::Result<OwnedFd> {
            // SAFETY: the kernel has just created the descriptor for us.
            Ok(unsafe { OwnedFd::from_raw_fd(out) })
        }
    }

    // SAFETY: the call fails on any other descriptor.
    Ok(unsafe { ioctl::ioctl(of, Related(which)) }?)
}

/// Returns the user id of the creator of a user namespace.
fn owner_of(namespace: &OwnedFd) -> io::Result<u32> {
    // SAFETY: the call writes a user id.
    let call = unsafe { ioctl::Getter::<OWNER, u32>::new() };
    // SAFETY: the call fails on any other descriptor.
    Ok(unsafe { ioctl::ioctl(namespace, call) }?)
}

/// Everything that is needed to enter, prepared beforehand: between `fork` and
/// `exec` only system calls are safe.
struct Prepared {
    users: Vec<u8>,
    groups: Vec<u8>,
    options: CString,
    files: CString,
}

impl Prepared {
    fn new(entrance: &Entrance) -> io::Result<Self> {
        let lowers: Vec<_> = entrance.lowers.iter().map(PathBuf::as_path).collect();
        let options = OverlayOptions {
            marks: OverlayXattrs::User,
            is_indexed: false,
        };
        let same = |id: u32| format!("{id} {id} 1").into_bytes();
        Ok(Self {
            users: same(rustix::process::geteuid().as_raw()),
            groups: same(rustix::process::getegid().as_raw()),
            options: overlay_options(&lowers, &entrance.room, options)?,
            files: CString::new(entrance.files.as_os_str().as_bytes())?,
        })
    }

    /// Mounts the overlay in new namespaces, in which the caller keeps its user
    /// and group.
    fn enter(&self) -> rustix::io::Result<()> {
        let both = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
        // SAFETY: the table of descriptors stays shared.
        unsafe { rustix::thread::unshare_unsafe(both) }?;
        // The kernel accepts a map of groups from an ordinary user only after
        // this.
        write(c"/proc/self/setgroups", b"deny")?;
        write(c"/proc/self/uid_map", &self.users)?;
        write(c"/proc/self/gid_map", &self.groups)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let options = Some(self.options.as_c_str());
        mount(
            c"overlay",
            self.files.as_c_str(),
            c"overlay",
            flags,
            options,
        )
    }
}

fn write(path: &CStr, text: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    rustix::io::write(file, text).map(drop)
}

/// Checks that the server of a lazy lower directory is alive, with a lookup
/// that the kernel cannot have cached.
fn is_served(files: &Path) -> io::Result<()> {
    let name = format!(".elevo-{}", std::process::id());
    match rustix::fs::stat(files.join(name)) {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTCONN) => Err(io::Error::other(
            "the process that serves this workspace's files has died; stop the commands in it and \
             retry",
        )),
        Err(error) => Err(error.into()),
    }
}

/// Returns processes that have an overlay with this upper directory mounted, at
/// least one for each mount namespace. If the caller may mount, only processes
/// in other user namespaces are returned.
pub(crate) fn users_of(upper: &Path) -> io::Result<Vec<User>> {
    let me = rustix::process::geteuid().as_raw();
    let ours = fs::read_link("/proc/self/ns/user").ok();
    let may_mount = may_mount();
    let mut seen = HashSet::new();
    let mut users = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let process = entry.path();
        let namespace = |kind: &str| fs::read_link(process.join("ns").join(kind)).ok();
        // All processes in one mount namespace have the same mounts, and a
        // machine may have thousands of processes with long lists of mounts, so
        // one list of each namespace is read. Where the link is unreadable, the
        // list is read for each process: the list is always readable.
        let mount_namespace = namespace("mnt");
        if mount_namespace
            .as_ref()
            .is_some_and(|mount_namespace| seen.contains(mount_namespace))
        {
            continue;
        }
        // If the link is unreadable, the process is more privileged than this
        // one and cannot be inside a workspace.
        let is_in_our_namespace =
            || namespace("user").is_none_or(|namespace| Some(&namespace) == ours.as_ref());
        // A caller that may mount has mounted the overlay for all processes of
        // its own namespace. These see it as an ordinary directory, and do not
        // count as users.
        if may_mount && is_in_our_namespace() {
            continue;
        }
        // Root considers every process. Other users consider only their own: a
        // stranger could have mounted an overlay whose upper has the same path,
        // and so keep the workspace from being removed.
        if me != 0 && user_of(&process) != Some(me) {
            continue;
        }
        // The process may have exited since it was listed. Its namespace is not
        // marked as seen then: another process in it shows the mounts.
        let table = MountTable::of(&process).ok();
        let Some(table) = table.filter(|table| !table.is_empty()) else {
            continue;
        };
        seen.extend(mount_namespace);
        let has_upper = |mount: &Mount<'_>| mount.upper().is_some_and(|found| found == upper);
        // The last mount is the visible one.
        let mount = table.iter().rfind(has_upper);
        users.extend(mount.map(|mount| User {
            pid,
            mount_point: mount.point(),
        }));
    }
    Ok(users)
}

/// Returns the user id of a process.
fn user_of(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Whether this process may mount in its own namespace.
pub(crate) fn may_mount() -> bool {
    let sets = rustix::thread::capabilities(None);
    sets.is_ok_and(|sets| {
        sets.effective
            .contains(rustix::thread::CapabilitySet::SYS_ADMIN)
    })
}

/// Enters a workspace like [`Entrance::enter`], in a process that exits at
/// once, and deletes the file `name` there.
pub(crate) fn try_to_enter(entrance: &Entrance, name: &str) -> io::Result<()> {
    let prepared = Prepared::new(entrance)?;
    let path = entrance.files.join(name);
    let path = CString::new(path.as_os_str().as_bytes())?;
    let delete = move || {
        prepared.enter()?;
        rustix::fs::unlink(path.as_c_str())?;
        // The child never execs; this error signals success to the parent.
        Err(Errno::CANCELED.into())
    };
    let mut command = Command::new("/");
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(delete) };
    match command.spawn() {
        Err(error) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => unreachable!("a directory is not executable"),
    }
}
