//! The lock of a server on its data directory, and the process that holds it.
//!
//! ```text
//! DATA/server.lock   {"version":1,"pid":1,"startTicks":1,"startedAt":"…","phase":"running"}
//!                    mode 0600; locked (flock) until the process of the server ends
//! ```
//!
//! The file is never deleted, so all servers of a data directory lock the same
//! file. A record whose lock is free belongs to a server that has ended.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::errors::{FileProblem, ProcessProblem, ServerProblem};
use crate::local::data_directory::DataDirectory;
use crate::output::format::{now, rfc3339};

/// Maximum bytes of a record.
const LARGEST: u64 = 16 << 10;

/// How long a record may be incomplete, because its server is writing it, and how
/// long another process may hold a shared lock to look at it.
const PATIENCE: Duration = Duration::from_secs(1);

const PAUSE: Duration = Duration::from_millis(20);

/// The stage that a server is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Phase {
    Starting,
    Running,
    Stopping,
}

impl Phase {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
        }
    }
}

/// The record of the process that holds the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Holder {
    version: u32,
    pub(crate) pid: i32,
    /// Start of the process in clock ticks since boot. A later process with the
    /// same id has another value.
    start_ticks: u64,
    pub(crate) started_at: String,
    pub(crate) phase: Phase,
}

/// The lock, held by this process.
#[derive(Debug)]
pub(crate) struct ServerLock {
    path: PathBuf,
    file: File,
    holder: Holder,
}

impl ServerLock {
    /// Creates the data directory if necessary, and acquires its lock.
    pub(crate) fn acquire(data: &DataDirectory) -> anyhow::Result<Self> {
        let failed = |action, path, source| FileProblem::Io {
            action,
            path,
            source,
        };
        let mut create = fs::DirBuilder::new();
        create.recursive(true).mode(0o700);
        let created = create.create(data.path());
        created.map_err(|source| failed("create", data.path().into(), source))?;
        let path = data.lock();
        let mut open = OpenOptions::new();
        open.create(true).truncate(false).read(true).write(true);
        let opened = open.mode(0o600).open(&path);
        let file = opened.map_err(|source| failed("open", path.clone(), source))?;
        match lock(&file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(occupied(data));
            }
            Err(source) => return Err(failed("lock", path, source).into()),
        }
        let pid = rustix::process::getpid();
        let ticks = start_ticks(pid).map_err(|source| failed("read", stat_path(pid), source))?;
        let mut lock = Self {
            path,
            file,
            holder: Holder {
                version: 1,
                pid: pid.as_raw_nonzero().get(),
                start_ticks: ticks,
                started_at: rfc3339(now()),
                phase: Phase::Starting,
            },
        };
        lock.enter(Phase::Starting)?;
        Ok(lock)
    }

    /// Records that the server has entered a phase.
    pub(crate) fn enter(&mut self, phase: Phase) -> Result<(), FileProblem> {
        self.holder.phase = phase;
        let json = serde_json::to_vec(&self.holder).unwrap_or_default();
        let written = self.file.set_len(0);
        let written = written.and_then(|()| self.file.write_all_at(&json, 0));
        written.map_err(|source| FileProblem::Io {
            action: "write",
            path: self.path.clone(),
            source,
        })
    }
}

/// The error of a start while another server holds the lock.
fn occupied(data: &DataDirectory) -> anyhow::Error {
    let process = match ServerProcess::find(data) {
        Ok(process) => process,
        Err(error) => return error,
    };
    let phase = process.as_ref().map(|process| process.holder.phase);
    match (data.running(), phase) {
        (Some(running), Some(Phase::Running)) => ServerProblem::AlreadyRunning {
            data: data.path().into(),
            url: running.url(),
            pid: running.pid,
        }
        .into(),
        (_, phase) => ProcessProblem::Changing {
            data: data.path().into(),
            doing: phase.unwrap_or(Phase::Starting).name(),
        }
        .into(),
    }
}

/// The process of a server. The handle names this process even after another one
/// got its id.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    pub(crate) holder: Holder,
    handle: OwnedFd,
}

impl ServerProcess {
    /// Finds the process that holds the lock. Returns `None` if the lock is free.
    /// Fails if the record does not name the holder.
    pub(crate) fn find(data: &DataDirectory) -> anyhow::Result<Option<Self>> {
        let path = data.lock();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(source) => {
                    return Err(FileProblem::Io {
                        action: "open",
                        path,
                        source,
                    }
                    .into());
                }
            };
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
                return Ok(None);
            }
            if let Some(process) = read(&mut file).and_then(Self::verified) {
                return Ok(Some(process));
            }
            if Instant::now() >= deadline {
                return Err(ProcessProblem::HolderUnknown { lock: path }.into());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Opens the process of a record. Returns `None` if it has ended, or if its id
    /// belongs to another process.
    fn verified(holder: Holder) -> Option<Self> {
        let pid = Pid::from_raw(holder.pid)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let process = Self { holder, handle };
        let ticks = start_ticks(pid).ok()?;
        // The ticks are those of the handle's process only if it still exists.
        let is_alive = !process.wait(Duration::ZERO).ok()?;
        (is_alive && ticks == process.holder.start_ticks).then_some(process)
    }

    /// Asks the process to stop.
    pub(crate) fn terminate(&self) -> Result<(), ProcessProblem> {
        match pidfd_send_signal(&self.handle, Signal::TERM) {
            // The process has ended already.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(ProcessProblem::NotSignalled {
                pid: self.holder.pid,
                source: error.into(),
            }),
        }
    }

    /// Waits until the process ends. Returns whether it has.
    pub(crate) fn wait(&self, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(count) => return Ok(count > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Acquires the lock. Retries, because [`ServerProcess::find`] in another process
/// holds a shared lock for a moment.
fn lock(file: &File) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                thread::sleep(PAUSE);
            }
            locked => return locked.map_err(Into::into),
        }
    }
}

fn stat_path(pid: Pid) -> PathBuf {
    format!("/proc/{}/stat", pid.as_raw_nonzero()).into()
}

/// Reads the start time of a process: field 22 of its `stat`.
fn start_ticks(pid: Pid) -> io::Result<u64> {
    let text = fs::read_to_string(stat_path(pid))?;
    // The name of the program in parentheses may contain spaces and parentheses.
    let after_name = text.rsplit_once(')').map(|(_, rest)| rest);
    let ticks = after_name.and_then(|rest| rest.split_whitespace().nth(19));
    let ticks = ticks.and_then(|ticks| ticks.parse().ok());
    ticks.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn data() -> (tempfile::TempDir, DataDirectory) {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::new(Some(directory.path().join("data")));
        (directory, data)
    }

    #[test]
    fn the_lock_names_its_process_while_it_is_held() {
        let (_directory, data) = data();
        assert!(ServerProcess::find(&data).unwrap().is_none());
        let mut lock = ServerLock::acquire(&data).unwrap();
        let mode = fs::metadata(data.lock()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let found = ServerProcess::find(&data).unwrap().unwrap();
        assert_eq!(found.holder, lock.holder);
        assert_eq!(found.holder.phase, Phase::Starting);
        lock.enter(Phase::Stopping).unwrap();
        let found = ServerProcess::find(&data).unwrap().unwrap();
        assert_eq!(found.holder.phase, Phase::Stopping);
        assert!(!found.wait(Duration::ZERO).unwrap());
        drop(lock);
        assert!(ServerProcess::find(&data).unwrap().is_none());
    }

    #[test]
    fn a_second_server_does_not_get_the_lock() {
        let (_directory, data) = data();
        let lock = ServerLock::acquire(&data).unwrap();
        let error = ServerLock::acquire(&data).unwrap_err();
        let problem = error.downcast_ref::<ProcessProblem>();
        assert!(
            matches!(
                problem,
                Some(ProcessProblem::Changing {
                    doing: "starting",
                    ..
                })
            ),
            "{error}"
        );
        drop(lock);
        ServerLock::acquire(&data).unwrap();
    }

    #[test]
    fn another_process_with_the_same_id_is_not_the_holder() {
        let (_directory, data) = data();
        let mut lock = ServerLock::acquire(&data).unwrap();
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        // As if the holder's id had been given to `sleep`, which started later.
        lock.holder.pid = other.id().try_into().unwrap();
        lock.holder.start_ticks = start_ticks(Pid::from_child(&other)).unwrap() - 1;
        lock.enter(Phase::Running).unwrap();
        let error = ServerProcess::find(&data).unwrap_err();
        let problem = error.downcast_ref::<ProcessProblem>();
        let is_unknown = matches!(problem, Some(ProcessProblem::HolderUnknown { .. }));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(is_unknown, "{error}");
    }

    #[test]
    fn the_end_of_a_process_is_noticed() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let process = ServerProcess::verified(Holder {
            version: 1,
            pid: pid.as_raw_nonzero().get(),
            start_ticks: start_ticks(pid).unwrap(),
            started_at: String::new(),
            phase: Phase::Running,
        });
        let process = process.unwrap();
        process.terminate().unwrap();
        assert!(process.wait(Duration::from_secs(60)).unwrap());
        child.wait().unwrap();
        process.terminate().unwrap();
    }
}
