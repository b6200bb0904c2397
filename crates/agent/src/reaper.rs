//! Starts processes and reaps them, and all orphans.
//!
//! One thread waits until any child is dead, without reaping it, and only then
//! takes the lock under which processes are started. So a child that dies
//! between being started and being written down is not lost, and what the
//! standard library reaps itself (a child that could not exec) is never taken
//! from it.
//!
//! That thread must be the first of the process, and processes must be started
//! by another one. Linux ignores deadly signals to PID 1 only as long as its first
//! thread does not block them, and starting a process blocks them for a moment: a
//! child that is fast could end us in it.

use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, kill_process_group, waitid,
};
use tokio::sync::oneshot;

/// How often orphans are looked for while we have no child. They come without
/// one if something enters the sandbox from outside.
const ORPHANS: Duration = Duration::from_secs(1);

/// How a process ended.
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

/// Why one was not.
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
    /// Reaps for ever.
    pub(crate) fn reap(&self) -> ! {
        loop {
            match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Ok(_) => self.0.collect(),
                Err(Errno::INTR) => {}
                Err(_) => self.0.wait_for_children(),
            }
        }
    }

    /// Starts a process in a directory. We go there ourselves for that moment:
    /// then it is clear what failed, and no copy of us has to be made to do it.
    pub(crate) fn spawn(&self, cwd: &str, command: &mut Command) -> Result<Started, NotStarted> {
        let mut running = self.0.lock();
        rustix::process::chdir(cwd).map_err(NotStarted::Cwd)?;
        let spawned = command.spawn();
        // It was possible at the start, and nothing can remove it.
        let _ = rustix::process::chdir("/");
        let child = spawned.map_err(|error| NotStarted::Exec(errno(&error)))?;
        let pid = Pid::from_child(&child);
        let (sender, exited) = oneshot::channel();
        running.insert(pid, sender);
        drop(running);
        self.0.started.notify_one();
        Ok(Started { child, pid, exited })
    }

    /// Sends a signal to the group of a process that we started and that has not
    /// ended; false if it has.
    pub(crate) fn signal(&self, pid: Pid, signal: Signal) -> bool {
        let running = self.0.lock();
        if !running.contains_key(&pid) {
            return false;
        }
        if kill_process_group(pid, signal).is_err() {
            // It has not got as far as having a group of its own.
            let _ = rustix::process::kill_process(pid, signal);
        }
        true
    }

    /// Ends what is left of a group. Its leader may be gone, and in theory its
    /// number taken by another group of the sandbox.
    pub(crate) fn kill_rest(&self, pid: Pid) {
        let _running = self.0.lock();
        // Usually nothing is left.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, oneshot::Sender<Status>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collect(&self) {
        let mut running = self.lock();
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            // An orphan has nobody who asks.
            if let Some(sender) = running.remove(&pid) {
                let _ = sender.send(status.into());
            }
        }
    }

    fn wait_for_children(&self) {
        let running = self.lock();
        if running.is_empty() {
            // Woken or not: there may be one now.
            let _ = self.started.wait_timeout(running, ORPHANS);
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    // The standard library refuses a NUL in an argument by itself.
    Errno::from_io_error(error).unwrap_or(Errno::INVAL)
}
