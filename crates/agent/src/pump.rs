//! Serves one process from its start to its end: reads its output, and kills it
//! after its timeout.

use std::sync::Arc;
use std::time::Duration;

use elevo_agent_proto::v1;
use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::process::Life;
use crate::reaper::Status;
use crate::source::{Read, Source};
use crate::state::Agent;

/// Time between SIGTERM and SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Maximum time to read the last output of a terminal after the shell has
/// ended.
const HANG_UP: Duration = Duration::from_secs(1);

/// Maximum bytes to read from a terminal after its shell has ended; the kernel
/// keeps far less.
const MAX_LEFT: usize = 1024 * 1024;

pub(crate) struct Pump {
    pub(crate) agent: Agent,
    pub(crate) id: String,
    pub(crate) pid: Pid,
    pub(crate) sources: [Source; 2],
    pub(crate) is_terminal: bool,
    pub(crate) room: Arc<Notify>,
    pub(crate) exited: oneshot::Receiver<Status>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) life: watch::Receiver<Life>,
}

/// The time at which a process is signalled next.
struct Deadline {
    at: Option<Instant>,
    passed: bool,
}

impl Pump {
    pub(crate) async fn run(mut self) {
        let exit = self.until_exit().await;
        match self.is_terminal {
            true => self.drain_terminal().await,
            false => self.drain_pipes(),
        }
        self.agent.lock().finish(&self.id, exit);
        self.discard().await;
    }

    async fn until_exit(&mut self) -> v1::ExitStatus {
        let mut full = false;
        let mut deadline = Deadline {
            // A timeout too large for the clock means no timeout.
            at: self.timeout.and_then(|t| Instant::now().checked_add(t)),
            passed: false,
        };
        let status = loop {
            let [first, second] = &self.sources;
            tokio::select! {
                status = &mut self.exited => break status,
                () = first.readable(), if !full => full = self.take_in(0).1,
                () = second.readable(), if !full => full = self.take_in(1).1,
                () = self.room.notified(), if full => full = self.is_full(),
                () = until(deadline.at) => self.expire(&mut deadline),
            }
        };
        if let (true, Some(at)) = (deadline.passed, deadline.at) {
            self.kill_rest_at(at);
        }
        let status = status.ok();
        v1::ExitStatus {
            code: status.and_then(|status| status.code),
            signal: status.and_then(|status| status.signal),
            timed_out: deadline.passed,
            offset: 0,
        }
    }

    fn take_in(&mut self, source: usize) -> (Read, bool) {
        let source = &mut self.sources[source];
        self.agent.lock().take_in(&self.id, source)
    }

    fn is_full(&self) -> bool {
        let state = self.agent.lock();
        let process = state.processes.get(&self.id);
        process.is_some_and(crate::process::Process::is_full)
    }

    fn expire(&self, deadline: &mut Deadline) {
        let signal = match deadline.passed {
            false => Signal::TERM,
            true => Signal::KILL,
        };
        self.agent.reaper().signal(self.pid, signal);
        deadline.at = (!deadline.passed).then(|| Instant::now() + GRACE);
        deadline.passed = true;
    }

    /// Kills the rest of the process group at `at`: after its leader ended on
    /// SIGTERM, the other processes get the same grace period.
    fn kill_rest_at(&self, at: Instant) {
        let (reaper, pid) = (self.agent.reaper().clone(), self.pid);
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            reaper.kill_rest(pid);
        });
    }

    /// Reads the data that is in the pipes now. Does not read to the end of the
    /// pipes, because other processes may hold them open and keep writing.
    fn drain_pipes(&mut self) {
        for index in 0..self.sources.len() {
            let mut left = self.sources[index].waiting();
            while left > 0 {
                match self.take_in(index).0 {
                    Read::Some(count) => left = left.saturating_sub(count as u64),
                    Read::Nothing | Read::End => break,
                }
            }
        }
    }

    /// Reads the terminal until no process has it open, within [`HANG_UP`] and
    /// [`MAX_LEFT`].
    async fn drain_terminal(&mut self) {
        let deadline = Instant::now() + HANG_UP;
        let mut left = MAX_LEFT;
        while left > 0 && self.sources[0].is_open() {
            tokio::select! {
                () = self.sources[0].readable() => {}
                () = tokio::time::sleep_until(deadline) => return,
            }
            if let Read::Some(count) = self.take_in(0).0 {
                left = left.saturating_sub(count);
            }
        }
    }

    /// Reads and discards the output of other processes that hold the pipes
    /// open, so that SIGPIPE does not kill them. Stops when the record of the
    /// process is deleted.
    async fn discard(&mut self) {
        while self.sources.iter().any(Source::is_open) {
            let [first, second] = &self.sources;
            let index = tokio::select! {
                () = first.readable() => 0,
                () = second.readable() => 1,
                () = forgotten(&mut self.life) => return,
            };
            let source = &mut self.sources[index];
            self.agent.lock().discard(source);
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn forgotten(life: &mut watch::Receiver<Life>) {
    while life.changed().await.is_ok() {}
}
