//! Starts processes, and reaps them and all orphans.
//!
//! One thread waits until any child is dead, without reaping it, and only then
//! acquires the lock under which processes are started. So a child that dies
//! before it is recorded is not lost. A child that could not exec is reaped by
//! the standard library, and never by this thread.
//!
//! This thread must be the first thread of the agent, and another thread must
//! start processes. Linux ignores fatal signals to PID 1 only as long as its
//! first thread does not block them. A thread that starts a process blocks
//! signals for a moment, in which a fast child could kill the agent.

use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, kill_process_group, waitid,
};
use tokio::sync::oneshot;

/// Interval of checks for orphans while the agent has no child. A process that
/// enters the sandbox from outside can leave orphans.
const ORPHANS: Duration = Duration::from_secs(1);

/// The exit code of a process, or the signal that killed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

impl From<WaitStatus> for Status {
    fn from(status: WaitStatus) -> Self {
        Self {
            code: status.exit_status(),
            signal: status.terminating_signal(),
        }
    }
}

/// A process that was started.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) pid: Pid,
    pub(crate) exited: oneshot::Receiver<Status>,
}

/// The reason why a process was not started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    Cwd(Errno),
    Exec(Errno),
}

#[derive(Clone, Default)]
pub(crate) struct Reaper(Arc<Shared>);

#[derive(Default)]
struct Shared {
    running: Mutex<HashMap<Pid, oneshot::Sender<Status>>>,
    started: Condvar,
}

impl Reaper {
    /// Reaps children forever.
    pub(crate) fn reap(&self) -> ! {
        loop {
            match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Ok(_) => self.0.collect(),
                Err(Errno::INTR) => {}
                Err(_) => self.0.wait_for_children(),
            }
        }
    }

    /// Starts a process in a directory. The agent itself changes to this
    /// directory for a moment. So a missing directory and a failed `exec` are
    /// distinct errors, and the child runs no code between `fork` and `exec`.
    pub(crate) fn spawn(&self, cwd: &str, command: &mut Command) -> Result<Started, NotStarted> {
        let mut running = self.0.lock();
        rustix::process::chdir(cwd).map_err(NotStarted::Cwd)?;
        let spawned = command.spawn();
        // The same call succeeded at startup, and `/` cannot be deleted.
        let _ = rustix::process::chdir("/");
        let child = spawned.map_err(|error| NotStarted::Exec(errno(&error)))?;
        let pid = Pid::from_child(&child);
        let (sender, exited) = oneshot::channel();
        running.insert(pid, sender);
        drop(running);
        self.0.started.notify_one();
        Ok(Started { child, pid, exited })
    }

    /// Sends a signal to the group of a process that was started here. Returns
    /// false if the process has ended.
    pub(crate) fn signal(&self, pid: Pid, signal: Signal) -> bool {
        let running = self.0.lock();
        if !running.contains_key(&pid) {
            return false;
        }
        if kill_process_group(pid, signal).is_err() {
            // The process has not created its group yet.
            let _ = rustix::process::kill_process(pid, signal);
        }
        true
    }

    /// Kills the rest of a process group. The leader may be gone, and in theory
    /// another group of the sandbox may have its id.
    pub(crate) fn kill_rest(&self, pid: Pid) {
        let _running = self.0.lock();
        // The call fails if no process is left, which is usual.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, oneshot::Sender<Status>>> {
        self.running.lock()
    }

    fn collect(&self) {
        let mut running = self.lock();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            // No task waits for an orphan.
            if let Some(sender) = running.remove(&pid) {
                let _ = sender.send(status.into());
            }
        }
    }

    fn wait_for_children(&self) {
        let mut running = self.lock();
        if running.is_empty() {
            // The result does not matter: the caller looks for children after a
            // notification and after the timeout.
            let _ = self.started.wait_for(&mut running, ORPHANS);
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    // The standard library itself rejects a NUL in an argument.
    Errno::from_io_error(error).unwrap_or(Errno::INVAL)
}
