//! Stops all processes, and then the agent.

use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::time::Instant;

use crate::log;
use crate::state::Agent;

/// Interval of checks whether all processes have ended.
const LOOK: Duration = Duration::from_millis(10);

/// Maximum time for killed processes to end, and for the last messages to be
/// sent.
const LAST: Duration = Duration::from_millis(300);

/// Starts the shutdown, unless it has already started.
pub(crate) fn begin(agent: &Agent, grace_ms: u64) {
    let mut state = agent.lock();
    if !state.shutting_down {
        state.shutting_down = true;
        let grace = Duration::from_millis(grace_ms);
        tokio::spawn(shut_down(agent.clone(), grace));
    }
}

async fn shut_down(agent: Agent, grace: Duration) {
    log::info(format_args!("shutting down"));
    let terminals_too = signal_all(&agent, Signal::TERM);
    for pid in terminals_too {
        // An interactive shell ignores SIGTERM.
        agent.reaper().signal(pid, Signal::HUP);
    }
    wait(&agent, grace, |agent| running(agent).is_empty()).await;
    signal_all(&agent, Signal::KILL);
    wait(&agent, LAST, |agent| running(agent).is_empty()).await;
    wait(&agent, LAST, |agent| agent.lock().outbox.is_empty()).await;
    // The connection needs a moment to send the last messages.
    tokio::time::sleep(LOOK).await;
    std::process::exit(0);
}

/// Sends a signal to every process group. Returns the processes that are
/// terminals.
fn signal_all(agent: &Agent, signal: Signal) -> Vec<Pid> {
    let running = running(agent);
    for (pid, _) in &running {
        agent.reaper().signal(*pid, signal);
    }
    let terminals = running.into_iter().filter(|(_, is_terminal)| *is_terminal);
    terminals.map(|(pid, _)| pid).collect()
}

fn running(agent: &Agent) -> Vec<(Pid, bool)> {
    let state = agent.lock();
    let processes = state.processes.values().filter(|p| p.is_running());
    processes
        .map(|process| (process.pid, process.terminal.is_some()))
        .collect()
}

async fn wait(agent: &Agent, limit: Duration, is_done: impl Fn(&Agent) -> bool) {
    let deadline = Instant::now().checked_add(limit);
    while !is_done(agent) && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        tokio::time::sleep(LOOK).await;
    }
}
