//! `workspace-agent`: PID 1 of a sandbox. Runs commands and terminals for the
//! server that it connects to, keeps their output until the server has read it,
//! and reaps orphans.
//!
//! Depends on `elevo-agent-proto`, and links no storage code: the agent runs
//! next to untrusted code, with the same rights. So it holds no secret except
//! the token of its sandbox, and passes the token to no other process. It
//! installs no signal handler, so that no process in the sandbox can kill it.
//!
//! ```text
//! connection ─► handle ─► command, terminal ─► reaper (starts, reaps)
//!     ▲          │             │
//!     │          └► tunnel ─► ports, files
//!     └── outgoing ◄── state ◄─┴─ pump (reads), feed (writes)
//!                      (buffers, readers)
//! ```
//!
//! The second thread does all the work, except that of files, for which it
//! starts a few more. The first thread only waits for children; `reaper` gives
//! the reason.

#![allow(
    clippy::disallowed_methods,
    reason = "a binary: clock and environment come from here"
)]

mod buffer;
mod calls;
mod command;
mod connection;
mod failure;
mod feed;
mod files;
mod handle;
mod log;
mod outgoing;
mod process;
mod pump;
mod reaper;
mod received;
mod settings;
mod shutdown;
mod source;
mod state;
mod terminal;
mod tunnel;
mod usage;

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::mpsc;

use anyhow::Context;
use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Pid};

use crate::reaper::Reaper;
use crate::settings::Settings;
use crate::state::Agent;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        None => {}
        Some(first) if first == terminal::ARGUMENT => return terminal::become_shell(arguments),
        Some(_) => {
            log::error(format_args!("this program takes no arguments"));
            return ExitCode::from(2);
        }
    }
    match start() {
        Ok(reaper) => reaper.reap(),
        Err(error) => {
            log::error(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn start() -> anyhow::Result<Reaper> {
    // Must be first: until this call, processes of the same user can inspect
    // the agent.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("cannot keep other processes from inspecting the agent")?;
    settings::hide_token()?;
    remove_signal_handlers()?;
    calls::give_up()?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::chdir("/").context("cannot change to /")?;
    let settings = Settings::from_env()?;
    log::set_level(settings.log_level);
    if rustix::process::getpid() != Pid::INIT {
        // Without this call, only PID 1 reaps orphans.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .context("cannot become the reaper of orphaned processes")?;
    }
    let reaper = Reaper::default();
    let agent = Agent::new(reaper.clone(), settings.environment.clone());
    // The start of a thread blocks signals for a moment, so the new thread must
    // not start a child before this thread has returned from it.
    let (begin, begun) = mpsc::channel::<Infallible>();
    std::thread::Builder::new()
        .name("agent".to_owned())
        .spawn(move || {
            let Err(mpsc::RecvError) = begun.recv();
            let Err(error) = serve(&agent, &settings);
            log::error(format_args!("{error:#}"));
            std::process::exit(1);
        })
        .context("cannot start a thread")?;
    drop(begin);
    Ok(reaper)
}

/// Removes the handlers with which the standard library reports an overflow of
/// the stack.
///
/// The kernel sends PID 1 only signals that it handles. A process in the
/// sandbox could send both of these to one thread at once, so that their two
/// frames overflow the small stack of the handlers, which ends the agent.
fn remove_signal_handlers() -> anyhow::Result<()> {
    for number in [Signal::SIGSEGV, Signal::SIGBUS] {
        // SAFETY: the default action runs no code of this program.
        unsafe { signal(number, SigHandler::SigDfl) }.context("cannot remove a signal handler")?;
    }
    Ok(())
}

fn serve(agent: &Agent, settings: &Settings) -> anyhow::Result<Infallible> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Threads for files, and others to resolve the name of the server.
        .max_blocking_threads(files::THREADS + 2)
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(connection::keep_connected(agent, settings))
}
