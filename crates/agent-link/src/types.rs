use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use elevo_agent_proto::v1;

/// A command to run with `/bin/sh -c`.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// Its id; nothing else in the sandbox may have it.
    pub id: String,
    /// What the shell is given.
    pub command: String,
    /// Where it runs; `/workspace` if absent.
    pub cwd: Option<String>,
    /// Added to the environment of the sandbox.
    pub envs: BTreeMap<String, String>,
    /// When it is ended, with its whole process group.
    pub timeout: Option<Duration>,
    /// Output that nobody reads: the oldest is dropped if true, the command waits
    /// if false.
    pub background: bool,
    /// What it finds on its standard input.
    pub stdin: Bytes,
    /// Whether [`AgentLink::input`](crate::AgentLink::input) will give it more.
    pub open_stdin: bool,
    /// Whether to read its output from the beginning.
    pub read: bool,
}

/// A terminal to open.
#[derive(Debug, Clone, Default)]
pub struct Terminal {
    /// Its id; nothing else in the sandbox may have it.
    pub id: String,
    /// Width in characters.
    pub cols: u16,
    /// Height in lines.
    pub rows: u16,
    /// What runs in it; `/bin/bash` if absent, or `/bin/sh` where there is none.
    pub shell: Option<String>,
    /// Where it starts; `/workspace` if absent.
    pub cwd: Option<String>,
    /// Added to the environment of the sandbox.
    pub envs: BTreeMap<String, String>,
}

/// What a reader gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Some output.
    Data {
        /// Where the process wrote it.
        stream: Stream,
        /// Of its first byte, in all that the process has written.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Output that is no longer there.
    Gap {
        /// Offset of the first byte that is missing.
        from: u64,
        /// Offset of the first byte that is there.
        to: u64,
    },
    /// The end; nothing follows.
    Exit(Exit),
}

/// Where a process wrote something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A terminal, which has only one.
    Terminal,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether its time had run out.
    pub timed_out: bool,
    /// How much it wrote.
    pub offset: u64,
}

/// What is known of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: String,
    /// Command or terminal.
    pub kind: ProcessKind,
    /// What runs; its beginning, if it is long.
    pub command: String,
    /// When it was started, in milliseconds since 1970.
    pub started_ms: i64,
    /// Running or ended.
    pub state: ProcessState,
    /// Offset of the oldest output that is there, as last heard.
    pub start: u64,
    /// Offset after the newest output, as last heard.
    pub end: u64,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Whether its oldest output is dropped if nobody reads it.
    pub background: bool,
    /// Its process id inside the sandbox.
    pub pid: i32,
}

/// Kind of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessKind {
    /// Started by [`AgentLink::run`](crate::AgentLink::run).
    Command,
    /// Started by [`AgentLink::open_terminal`](crate::AgentLink::open_terminal).
    Terminal,
}

/// State of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessState {
    /// It runs.
    Running,
    /// It has ended, and the agent remembers it.
    Exited,
}

/// What a sandbox uses; what could not be measured is absent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// When it was measured, in milliseconds since 1970.
    pub at_ms: i64,
    /// Of one processor, since the measurement before.
    pub cpu_percent: Option<f64>,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// Disk.
    pub disk_bytes: Option<u64>,
    /// Number of processes.
    pub processes: Option<u64>,
}

impl From<v1::ExitStatus> for Exit {
    fn from(exit: v1::ExitStatus) -> Self {
        Self {
            code: exit.code,
            signal: exit.signal,
            timed_out: exit.timed_out,
            offset: exit.offset,
        }
    }
}

impl From<v1::Process> for Process {
    fn from(process: v1::Process) -> Self {
        let kind = match process.kind() {
            v1::ProcessKind::Terminal => ProcessKind::Terminal,
            v1::ProcessKind::Command | v1::ProcessKind::Unspecified => ProcessKind::Command,
        };
        let state = match process.exit {
            Some(_) => ProcessState::Exited,
            None => ProcessState::Running,
        };
        Self {
            id: process.process_id,
            kind,
            command: process.command,
            started_ms: process.started_at,
            state,
            start: process.start,
            end: process.end,
            exit: process.exit.map(Exit::from),
            background: process.background,
            pid: process.pid,
        }
    }
}

/// A call that an agent has answered.
#[derive(Debug, Clone)]
pub struct AgentCall {
    /// Whose agent.
    pub sandbox: String,
    /// What it was asked for.
    pub method: &'static str,
    /// When it had the request, by its own clock, in microseconds since 1970.
    pub received_us: i64,
    /// When it had done it.
    pub done_us: i64,
}
