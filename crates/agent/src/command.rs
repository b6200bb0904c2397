//! Starts commands, and sends input and signals to them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use elevo_agent_proto::v1::{self, Failure, ProcessKind};
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::sync::{Notify, mpsc, watch};

use crate::buffer::{Buffer, Stream};
use crate::failure;
use crate::feed::{self, Piece};
use crate::process::{Keep, Life, Process, shown};
use crate::pump::Pump;
use crate::reaper::{NotStarted, Started};
use crate::received::Received;
use crate::source::{Fd, Source, nonblocking};
use crate::state::{Agent, MAX_COMMANDS, State, now_ms};

const SHELL: &str = "/bin/sh";

/// The default working directory of processes.
pub(crate) const CWD: &str = "/workspace";

/// The agent's ends of the pipes to a command.
struct Pipes {
    stdin: Option<Fd>,
    stdout: Fd,
    stderr: Fd,
}

pub(crate) fn run(agent: &Agent, request: v1::RunCommandRequest) -> Result<(), Failure> {
    {
        let state = agent.lock();
        check_new(&state, &request.command_id, &request.envs)?;
        if state.running(ProcessKind::Command) >= MAX_COMMANDS {
            return Err(failure::too_many("running commands", MAX_COMMANDS));
        }
        if request.subscribe.is_some() {
            state.outbox.check_readers()?;
        }
    }
    let cwd = or_default(&request.cwd, CWD);
    let mut command = prepare(agent, &request);
    let mut started = agent
        .reaper()
        .spawn(cwd, &mut command)
        .map_err(|error| match error {
            NotStarted::Cwd(errno) => failure::cwd(cwd, errno),
            NotStarted::Exec(errno) => failure::shell(program(&request), errno),
        })?;
    let pipes = pipes(&mut started.child).map_err(|errno| {
        agent.reaper().signal(started.pid, Signal::KILL);
        failure::preparing("pipes", errno)
    })?;
    serve(agent, request, started, pipes);
    Ok(())
}

/// Returns the program that runs: the first of `args`, or else the shell.
fn program(request: &v1::RunCommandRequest) -> &str {
    request.args.first().map_or(SHELL, String::as_str)
}

fn prepare(agent: &Agent, request: &v1::RunCommandRequest) -> Command {
    let stdin = match request.open_stdin || !request.stdin.is_empty() {
        true => Stdio::piped(),
        false => Stdio::null(),
    };
    let mut command = Command::new(program(request));
    match request.args.get(1..) {
        Some(arguments) => command.args(arguments),
        None => command.arg("-c").arg(&request.command),
    };
    command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env_clear()
        .envs(
            agent
                .environment()
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .envs(&request.envs)
        .process_group(0);
    command
}

fn pipes(child: &mut Child) -> Result<Pipes, Errno> {
    let open = |fd: OwnedFd| {
        nonblocking(fd).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let stdout = child.stdout.take().ok_or(Errno::BADF)?;
    let stderr = child.stderr.take().ok_or(Errno::BADF)?;
    Ok(Pipes {
        stdin: child.stdin.take().map(|fd| open(fd.into())).transpose()?,
        stdout: open(stdout.into())?,
        stderr: open(stderr.into())?,
    })
}

/// Records the command and starts the tasks that serve it.
fn serve(agent: &Agent, request: v1::RunCommandRequest, started: Started, pipes: Pipes) {
    let keep = match request.keep() {
        v1::Keep::DropOldest => Keep::DropOldest,
        v1::Keep::Block => Keep::Block,
    };
    let life = watch::Sender::new(Life::Running);
    let room = Arc::new(Notify::new());
    let input = pipes.stdin.map(|fd| {
        let (sender, receiver) = mpsc::channel(feed::WAITING);
        let (sender, receiver) = match request.open_stdin {
            true => (Some(sender), Some(receiver)),
            false => (None, None),
        };
        let feed = feed::feed(agent.clone(), fd, request.stdin, receiver, life.subscribe());
        tokio::spawn(feed);
        sender
    });
    tokio::spawn(
        Pump {
            agent: agent.clone(),
            id: request.command_id.clone(),
            pid: started.pid,
            sources: [
                Source::new(Stream::Stdout, pipes.stdout),
                Source::new(Stream::Stderr, pipes.stderr),
            ],
            is_terminal: false,
            room: Arc::clone(&room),
            exited: started.exited,
            timeout: timeout(request.timeout_ms),
            life: life.subscribe(),
        }
        .run(),
    );
    let mut state = agent.lock();
    let process = Process {
        kind: ProcessKind::Command,
        command: match request.args.is_empty() {
            true => shown(&request.command),
            false => shown(&request.args.join(" ")),
        },
        started_at: now_ms(),
        ended_at: None,
        pid: started.pid,
        keep,
        buffer: Buffer::new(state.limit),
        exit: None,
        readers: Vec::new(),
        told_end: 0,
        room,
        input: input.flatten(),
        received: Received::default(),
        terminal: None,
        life,
    };
    state.add(&request.command_id, process);
    if let Some(mut subscribe) = request.subscribe {
        subscribe.process_id = request.command_id;
        subscribe.offset = 0;
        state.begin_reader(&subscribe);
    }
}

/// Queues input for a command.
pub(crate) fn input(
    agent: &Agent,
    request: v1::CommandInput,
    request_id: u64,
) -> Result<(), Failure> {
    let piece = Piece {
        data: request.data,
        eof: request.eof,
        request_id,
    };
    feed::enqueue(agent, &request.command_id, piece)
}

/// Sends a signal to the group of a process.
pub(crate) fn signal(agent: &Agent, id: &str, signal: i32) -> Result<(), Failure> {
    let named = Signal::from_named_raw(signal);
    let signal =
        named.ok_or_else(|| failure::invalid(format!("{signal} is not the number of a signal")))?;
    let state = agent.lock();
    let process = state.processes.get(id);
    let process = process.ok_or_else(failure::no_such_process)?;
    match process.is_running() && agent.reaper().signal(process.pid, signal) {
        true => Ok(()),
        false => Err(failure::ended()),
    }
}

/// Checks the id and the environment variables of a new process.
pub(crate) fn check_new(
    state: &State,
    id: &str,
    envs: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    if state.shutting_down {
        return Err(failure::invalid("the sandbox is shutting down"));
    }
    if id.is_empty() {
        return Err(failure::invalid("a process needs an id"));
    }
    if state.processes.contains_key(id) {
        return Err(failure::invalid(format!("process `{id}` already exists")));
    }
    let wrong = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
    match envs.keys().find(wrong) {
        Some(name) => Err(failure::invalid(format!(
            "not a valid name of an environment variable: {name:?}"
        ))),
        None => Ok(()),
    }
}

pub(crate) fn or_default<'a>(text: &'a str, default: &'a str) -> &'a str {
    match text {
        "" => default,
        text => text,
    }
}

fn timeout(milliseconds: i64) -> Option<Duration> {
    let milliseconds = u64::try_from(milliseconds).ok()?;
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}
