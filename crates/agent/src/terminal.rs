//! Opens terminals.
//!
//! A shell needs a new session with the terminal as its controlling terminal.
//! Only the new process itself can create this session, after `fork` and before
//! it becomes the shell. So the agent starts its own program as
//! `workspace-agent terminal -- SHELL`, which creates the session and then
//! becomes the shell.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use elevo_agent_proto::v1::{self, Failure, ProcessKind};
use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use tokio::sync::{Notify, mpsc, watch};

use crate::buffer::{Buffer, Stream};
use crate::command::{CWD, check_new, or_default};
use crate::failure;
use crate::feed;
use crate::log;
use crate::process::{Keep, Life, Process};
use crate::pump::{GRACE, Pump};
use crate::reaper::{NotStarted, Started};
use crate::received::Received;
use crate::source::{Fd, Source, nonblocking};
use crate::state::{Agent, State, now_ms};

/// The argument that makes this program become a shell.
pub(crate) const ARGUMENT: &str = "terminal";

const SELF: &str = "/proc/self/exe";
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Exit code if the shell cannot be run; shells use the same code.
const CANNOT_RUN: u8 = 127;

/// Opens a terminal.
pub(crate) fn open(agent: &Agent, request: v1::CreatePtyRequest) -> Result<(), Failure> {
    {
        let state = agent.lock();
        check_new(&state, &request.pty_id, &request.envs)?;
        if state.running(ProcessKind::Terminal) >= state.max_terminals {
            return Err(failure::too_many("terminals", state.max_terminals));
        }
    }
    let size = size(request.cols, request.rows)?;
    let shell = choose_shell(&request.shell)?;
    let cwd = or_default(&request.cwd, CWD);
    let (master, slave) = pair(size).map_err(|errno| failure::preparing("a terminal", errno))?;
    let mut command = shell_command(agent, &request, shell, slave)
        .map_err(|errno| failure::preparing("a terminal", errno))?;
    let started = agent
        .reaper()
        .spawn(cwd, &mut command)
        .map_err(|error| match error {
            NotStarted::Cwd(errno) => failure::cwd(cwd, errno),
            NotStarted::Exec(errno) => failure::shell(shell, errno),
        })?;
    // Closes the agent's copies of the shell's side. The terminal would never
    // hang up as long as they are open.
    drop(command);
    serve(agent, &request.pty_id, shell, started, master);
    Ok(())
}

/// Opens a terminal. Returns the agent's side and the shell's side.
fn pair(size: Winsize) -> Result<(Fd, OwnedFd), Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let slave = match rustix::pty::ioctl_tiocgptpeer(&master, flags) {
        // gVisor does not support `TIOCGPTPEER`.
        Err(Errno::NOTTY | Errno::INVAL) => by_name(&master)?,
        slave => slave?,
    };
    rustix::termios::tcsetwinsize(&master, size)?;
    let master = nonblocking(master);
    let master = master.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((master, slave))
}

/// Opens the shell's side of a terminal by its name in `/dev/pts`.
fn by_name(master: &OwnedFd) -> Result<OwnedFd, Errno> {
    let name = rustix::pty::ptsname(master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(name, flags, Mode::empty())
}

fn shell_command(
    agent: &Agent,
    request: &v1::CreatePtyRequest,
    shell: &str,
    slave: OwnedFd,
) -> Result<Command, Errno> {
    let copy = || rustix::io::fcntl_dupfd_cloexec(&slave, 3).map(Stdio::from);
    let mut command = Command::new(SELF);
    command
        .arg0(env!("CARGO_BIN_NAME"))
        .args([ARGUMENT, "--", shell])
        .stdin(copy()?)
        .stdout(copy()?)
        .stderr(copy()?)
        .env_clear()
        .env("TERM", "xterm-256color")
        .envs(
            agent
                .environment()
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .env("SHELL", shell)
        .envs(&request.envs);
    Ok(command)
}

fn serve(agent: &Agent, id: &str, shell: &str, started: Started, master: Fd) {
    let life = watch::Sender::new(Life::Running);
    let room = Arc::new(Notify::new());
    let (input, pieces) = mpsc::channel(feed::WAITING);
    tokio::spawn(feed::feed(
        agent.clone(),
        Arc::clone(&master),
        Bytes::new(),
        Some(pieces),
        life.subscribe(),
    ));
    tokio::spawn(
        Pump {
            agent: agent.clone(),
            id: id.to_owned(),
            pid: started.pid,
            sources: [
                Source::new(Stream::Terminal, Arc::clone(&master)),
                Source::none(),
            ],
            is_terminal: true,
            room: Arc::clone(&room),
            exited: started.exited,
            timeout: None,
            life: life.subscribe(),
        }
        .run(),
    );
    let mut state = agent.lock();
    let process = Process {
        kind: ProcessKind::Terminal,
        command: shell.to_owned(),
        started_at: now_ms(),
        ended_at: None,
        pid: started.pid,
        keep: Keep::BlockWhileRead,
        buffer: Buffer::new(state.limit),
        exit: None,
        readers: Vec::new(),
        told_end: 0,
        room,
        input: Some(input),
        received: Received::default(),
        terminal: Some(master),
        life,
    };
    state.add(id, process);
}

/// Queues input for a terminal, unless the terminal has received it before.
pub(crate) fn input(agent: &Agent, request: v1::PtyInput, request_id: u64) -> Result<(), Failure> {
    if !agent.lock().is_new_input(&request) {
        agent.answer(request_id, Ok(()), 0);
        return Ok(());
    }
    let piece = feed::Piece {
        data: request.data,
        eof: false,
        request_id,
    };
    feed::enqueue(agent, &request.pty_id, piece)?;
    if let Some(process) = agent.lock().processes.get_mut(&request.pty_id) {
        process.received.record(&request.client, request.seq);
    }
    Ok(())
}

impl State {
    fn is_new_input(&self, request: &v1::PtyInput) -> bool {
        let process = self.processes.get(&request.pty_id);
        process.is_none_or(|process| process.received.is_new(&request.client, request.seq))
    }
}

/// Changes the size of a terminal.
pub(crate) fn resize(agent: &Agent, request: &v1::ResizePtyRequest) -> Result<(), Failure> {
    let size = size(request.cols, request.rows)?;
    let state = agent.lock();
    let process = state.processes.get(&request.pty_id);
    let process = process.ok_or_else(failure::no_such_process)?;
    if process.kind != ProcessKind::Terminal {
        return Err(failure::invalid(
            "a command is not a terminal and has no size",
        ));
    }
    let terminal = process.terminal.as_ref().ok_or_else(failure::ended)?;
    let resized = rustix::termios::tcsetwinsize(terminal.get_ref(), size);
    resized.map_err(|errno| {
        failure::invalid(format!("cannot change the size of the terminal: {errno}"))
    })
}

/// Hangs up a terminal, and kills its shell if the shell does not end within
/// [`GRACE`].
pub(crate) fn close(agent: &Agent, id: &str) -> Result<(), Failure> {
    let (pid, mut life) = {
        let state = agent.lock();
        let process = state.processes.get(id);
        let process = process.ok_or_else(failure::no_such_process)?;
        if process.kind != ProcessKind::Terminal {
            return Err(failure::invalid("a command is not a terminal"));
        }
        (process.pid, process.life.subscribe())
    };
    if !agent.reaper().signal(pid, Signal::HUP) {
        return Err(failure::ended());
    }
    // A stopped shell handles SIGHUP only after SIGCONT.
    agent.reaper().signal(pid, Signal::CONT);
    let reaper = agent.reaper().clone();
    tokio::spawn(async move {
        let ended = life.wait_for(|life| *life == Life::Ended);
        if tokio::time::timeout(GRACE, ended).await.is_err() {
            reaper.signal(pid, Signal::KILL);
        }
    });
    Ok(())
}

fn size(cols: i32, rows: i32) -> Result<Winsize, Failure> {
    let side = |length: i32| u16::try_from(length).ok().filter(|length| *length > 0);
    match (side(cols), side(rows)) {
        (Some(ws_col), Some(ws_row)) => Ok(Winsize {
            ws_row,
            ws_col,
            ws_xpixel: 0,
            ws_ypixel: 0,
        }),
        _ => Err(failure::invalid(format!(
            "not a valid size of a terminal: {cols}x{rows}"
        ))),
    }
}

/// Returns the requested shell, or by default the first of [`SHELLS`] that can
/// run.
fn choose_shell(asked: &str) -> Result<&str, Failure> {
    let runs = |shell: &str| rustix::fs::access(shell, Access::EXEC_OK);
    let shell = match asked {
        "" if runs(SHELLS[0]).is_ok() => SHELLS[0],
        "" => SHELLS[1],
        asked => asked,
    };
    match runs(shell) {
        Ok(()) => Ok(shell),
        Err(errno) => Err(failure::shell(shell, errno)),
    }
}

/// Replaces this process with the shell of the terminal on standard input.
pub(crate) fn become_shell(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(_), Some(shell)) = (arguments.next(), arguments.next()) else {
        log::error(format_args!("usage: workspace-agent {ARGUMENT} -- SHELL"));
        return ExitCode::from(2);
    };
    if let Err(errno) = control_terminal() {
        log::error(format_args!("cannot take control of the terminal: {errno}"));
        return ExitCode::from(CANNOT_RUN);
    }
    let error = Command::new(&shell).exec();
    log::error(format_args!("cannot run {}: {error}", shell.display()));
    ExitCode::from(CANNOT_RUN)
}

fn control_terminal() -> Result<(), Errno> {
    rustix::process::setsid()?;
    rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())
}
