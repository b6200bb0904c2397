use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use elevo_agent_proto::v1;

/// A command to run.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The id of the command; must be unique in the sandbox.
    pub id: String,
    /// The script for `/bin/sh -c`; empty if `args` is not.
    pub command: String,
    /// A program and its arguments, which run without a shell.
    pub args: Vec<String>,
    /// The working directory; `/workspace` if absent.
    pub cwd: Option<String>,
    /// Environment variables, in addition to those of the sandbox.
    pub envs: BTreeMap<String, String>,
    /// The time after which the agent stops the whole process group.
    pub timeout: Option<Duration>,
    /// Whether the oldest unread output is dropped when the agent's buffer is
    /// full. Otherwise the command blocks until its output is read.
    pub background: bool,
    /// The beginning of the standard input; all of it unless `open_stdin` is
    /// set.
    pub stdin: Bytes,
    /// Whether [`AgentLink::input`](crate::AgentLink::input) will write more
    /// input.
    pub open_stdin: bool,
    /// Whether the caller reads the output from the beginning.
    pub read: bool,
}

/// A terminal to open.
#[derive(Debug, Clone, Default)]
pub struct Terminal {
    /// The id of the terminal; must be unique in the sandbox.
    pub id: String,
    /// Width in characters.
    pub cols: u16,
    /// Height in lines.
    pub rows: u16,
    /// The shell. If absent, `/bin/bash`, or `/bin/sh` if the sandbox has no
    /// `/bin/bash`.
    pub shell: Option<String>,
    /// The working directory; `/workspace` if absent.
    pub cwd: Option<String>,
    /// Environment variables, in addition to those of the sandbox.
    pub envs: BTreeMap<String, String>,
}

/// An event of an [`Output`](crate::Output).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A piece of output.
    Data {
        /// The stream that the process wrote to.
        stream: Stream,
        /// The offset of the first byte in all output of the process.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Output that was dropped.
    Gap {
        /// Offset of the first missing byte.
        from: u64,
        /// Offset of the first byte after the gap.
        to: u64,
    },
    /// The end of the process; no event follows.
    Exit(Exit),
}

/// The stream of a piece of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A terminal, which has only one stream.
    Terminal,
}

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, unless a signal killed the process.
    pub code: Option<i32>,
    /// The signal that killed the process.
    pub signal: Option<i32>,
    /// Whether the process was stopped because of its timeout.
    pub timed_out: bool,
    /// Total number of output bytes.
    pub offset: u64,
}

/// The record of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The id of the process.
    pub id: String,
    /// Whether the process is a command or a terminal.
    pub kind: ProcessKind,
    /// The command; truncated if it is long.
    pub command: String,
    /// The start time, in milliseconds since 1970.
    pub started_ms: i64,
    /// Whether the process runs or has ended.
    pub state: ProcessState,
    /// Offset of the oldest output that the agent keeps, as last reported.
    pub start: u64,
    /// Offset after the newest output, as last reported.
    pub end: u64,
    /// The way in which the process ended, if it has ended.
    pub exit: Option<Exit>,
    /// Whether the oldest unread output is dropped when the agent's buffer is
    /// full.
    pub background: bool,
    /// The PID of the process inside the sandbox.
    pub pid: i32,
    /// The time of the end, in milliseconds since 1970, if the process has
    /// ended.
    pub ended_ms: Option<i64>,
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
    /// The process runs.
    Running,
    /// The process has ended, and the agent still has its record.
    Exited,
}

/// The resources that a sandbox uses. A value is absent if it could not be
/// measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// The time of the measurement, in milliseconds since 1970.
    pub at_ms: i64,
    /// Percent of one processor, since the previous measurement.
    pub cpu_percent: Option<f64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Bytes on disk.
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
            ended_ms: (process.ended_at > 0).then_some(process.ended_at),
        }
    }
}

/// A call that an agent has completed.
#[derive(Debug, Clone)]
pub struct AgentCall {
    /// The sandbox of the agent.
    pub sandbox: String,
    /// The method of the request.
    pub method: &'static str,
    /// The time at which the agent received the request, by its own clock, in
    /// microseconds since 1970.
    pub received_us: i64,
    /// The time at which the agent completed the request, by the same clock and
    /// in the same unit.
    pub done_us: i64,
}
