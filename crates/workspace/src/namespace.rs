//! Overlays for whoever may not mount: in a user namespace, where everybody
//! may. Such a mount is seen by the processes in the namespace and by no others,
//! and goes with the last of them.
//!
//! Nothing is kept about a namespace: who has a workspace mounted is read from
//! what the kernel says about processes.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use elevo_engine::Marks;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces};

use crate::lock;
use crate::provider::{OverlayOptions, overlay_options};

/// How a process gets to see a workspace that others don't: by
/// [`enter`](Self::enter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// What it is made from, the first on top.
    pub lowers: Vec<PathBuf>,
    /// Where what is changed in it goes.
    pub room: PathBuf,
    /// Where it will be seen.
    pub files: PathBuf,
}

/// A process that has an overlay mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) pid: Pid,
    /// Where it sees it.
    at: PathBuf,
}

impl Entrance {
    /// Lets this process, and whatever it starts, see the workspace: together
    /// with those who are in it already, or else in a namespace of its own. It
    /// must have no other threads.
    pub fn enter(&self) -> io::Result<()> {
        let prepared = Prepared::new(self)?;
        // Until this process is found in there.
        let _entering = lock::alone(&self.room.join("entering"))?;
        let users = users_of(&self.room.join("upper"))?;
        let Some(first) = users.first() else {
            return Ok(prepared.enter()?);
        };
        let fits = |user: &&User| user.at == self.files;
        let Some(user) = users.iter().find(fits) else {
            return Err(io::Error::other(format!(
                "process {} has it mounted at {}; end that first",
                first.pid.as_raw_nonzero(),
                first.at.display()
            )));
        };
        let process = pidfd_open(user.pid, PidfdFlags::empty())?;
        let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
        move_into_thread_name_spaces(process.as_fd(), both)?;
        is_served(&self.files)
    }
}

/// Everything that is needed to enter, so that doing it is nothing but calls
/// of the kernel.
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
            marks: Marks::User,
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

    /// In a new namespace, where the caller is who it was.
    fn enter(&self) -> rustix::io::Result<()> {
        let both = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
        // SAFETY: the table of descriptors stays shared.
        unsafe { rustix::thread::unshare_unsafe(both) }?;
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

/// Whether those who serve what an overlay is made from still do: they are
/// asked for a name that nobody can have asked for before.
fn is_served(files: &Path) -> io::Result<()> {
    let name = format!(".elevo-{}", std::process::id());
    match rustix::fs::stat(files.join(name)) {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTCONN) => Err(io::Error::other(
            "whoever served its files has died; end the processes that are in it, and come again",
        )),
        Err(error) => Err(error.into()),
    }
}

/// The processes in other namespaces that have an overlay with this upper
/// directory mounted: one for each namespace.
pub(crate) fn users_of(upper: &Path) -> io::Result<Vec<User>> {
    let ours = fs::read_link("/proc/self/ns/mnt")?;
    let mut seen = vec![ours];
    let mut users = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        // It has ended, or is somebody else's.
        let Ok(namespace) = fs::read_link(entry.path().join("ns/mnt")) else {
            continue;
        };
        if seen.contains(&namespace) {
            continue;
        }
        let Ok(mounts) = fs::read(entry.path().join("mountinfo")) else {
            continue;
        };
        seen.push(namespace);
        let lines = mounts.split(|byte| *byte == b'\n');
        let at = lines.filter_map(|line| mounted_at(line, upper)).next_back();
        users.extend(at.map(|at| User { pid, at }));
    }
    Ok(users)
}

/// Where an overlay with this upper directory is, if a line is about one. See
/// `proc_pid_mountinfo(5)`.
fn mounted_at(line: &[u8], upper: &Path) -> Option<PathBuf> {
    let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    if *fields.get(dash + 1)? != b"overlay" {
        return None;
    }
    let mut options = fields.last()?.split(|byte| *byte == b',');
    let is_it = |option: &[u8]| {
        let path = option.strip_prefix(b"upperdir=");
        path.is_some_and(|path| plain(path) == upper.as_os_str().as_bytes())
    };
    options.any(is_it).then(|| {
        let at = plain(fields.get(4).copied().unwrap_or_default());
        std::ffi::OsString::from_vec(at).into()
    })
}

/// Without the escapes of `/proc`: a backslash and three octal digits.
fn plain(text: &[u8]) -> Vec<u8> {
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

/// Whether this process may mount in its own namespace.
pub(crate) fn may_mount() -> bool {
    let sets = rustix::thread::capabilities(None);
    sets.is_ok_and(|sets| {
        sets.effective
            .contains(rustix::thread::CapabilitySet::SYS_ADMIN)
    })
}

/// Enters a workspace as [`Entrance::enter`] would, in a process that ends at
/// once, and deletes what is called `name` there.
pub(crate) fn try_to_enter(entrance: &Entrance, name: &str) -> io::Result<()> {
    let prepared = Prepared::new(entrance)?;
    let path = entrance.files.join(name);
    let path = CString::new(path.as_os_str().as_bytes())?;
    let delete = move || {
        prepared.enter()?;
        rustix::fs::unlink(path.as_c_str())?;
        // It becomes no other program; this is how the parent hears of it.
        Err(Errno::CANCELED.into())
    };
    let mut command = Command::new("/");
    // SAFETY: it does nothing but call the kernel.
    unsafe { command.pre_exec(delete) };
    match command.spawn() {
        Err(error) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => unreachable!("a directory is no program"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_mount_is_understood() {
        let line = br"65 43 0:39 / /a\040b/files rw,relatime shared:3 - overlay overlay rw,lowerdir=/l,upperdir=/a\040b/upper,workdir=/w,userxattr";
        let at = |upper: &str| mounted_at(line, Path::new(upper));
        assert_eq!(at("/a b/upper"), Some("/a b/files".into()));
        assert_eq!(at("/a b/uppe"), None);
        assert_eq!(at("/l"), None);
        let other = b"65 43 0:39 / /upper rw - ext4 /dev/vda rw,upperdir=/upper";
        assert_eq!(mounted_at(other, Path::new("/upper")), None);
        assert_eq!(mounted_at(b"", Path::new("/upper")), None);
        assert_eq!(plain(br"\134\\0"), br"\\\0");
    }
}
