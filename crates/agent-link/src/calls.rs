//! The server's calls to an agent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use elevo_agent_proto::v1::server_message::Payload;
use elevo_agent_proto::{MAX_INPUT, MAX_MESSAGE, v1};

use crate::error::{LinkError, StartFailure};
use crate::link::AgentLink;
use crate::reader::Output;
use crate::types::{Command, Process, ProcessKind, Terminal, Usage};

/// Extra time to wait for an agent to shut down, after its grace period.
const SHUT_DOWN_SLACK: Duration = Duration::from_secs(1);

/// Maximum bytes of a command and its environment.
const MAX_COMMAND: usize = MAX_MESSAGE / 2;

impl AgentLink {
    /// Runs a command. Returns when the command has started, with its output if
    /// [`Command::read`] is set.
    ///
    /// # Errors
    ///
    /// [`LinkError::CannotStart`] and [`LinkError::TooMany`] if the command did
    /// not start. After [`LinkError::Disconnected`], the command may have
    /// started: search for its id when the agent has reconnected.
    pub async fn run(&self, mut command: Command) -> Result<Option<Output>, LinkError> {
        let args: usize = command.args.iter().map(|arg| arg.len() + 16).sum();
        check_size(command.command.len() + args, &command.envs)?;
        let output = match command.read {
            true => Some(self.0.begin_reader(0)?),
            false => None,
        };
        let id = command.id.clone();
        let close_after = !command.open_stdin;
        let stdin = std::mem::take(&mut command.stdin);
        let first = stdin.slice(..stdin.len().min(MAX_INPUT));
        let rest = stdin.slice(first.len()..);
        let mut request = self.run_request(command, first, output.as_ref());
        request.open_stdin |= !rest.is_empty();
        self.0.request(Payload::RunCommand(request)).await?;
        if !rest.is_empty() {
            self.feed(id, rest, close_after).await;
        }
        Ok(output)
    }

    fn run_request(
        &self,
        command: Command,
        stdin: Bytes,
        output: Option<&Output>,
    ) -> v1::RunCommandRequest {
        let keep = match command.background {
            true => v1::Keep::DropOldest,
            false => v1::Keep::Block,
        };
        v1::RunCommandRequest {
            subscribe: output.map(|output| v1::Subscribe {
                subscription_id: output.reader(),
                process_id: command.id.clone(),
                offset: 0,
                window: self.0.window,
            }),
            command_id: command.id,
            command: command.command,
            cwd: command.cwd.unwrap_or_default(),
            envs: command.envs,
            timeout_ms: command.timeout.map_or(0, timeout_ms),
            keep: keep.into(),
            stdin,
            open_stdin: command.open_stdin,
            args: command.args,
        }
    }

    /// Writes the rest of a command's initial input in the background. Later
    /// input waits for it.
    async fn feed(&self, id: String, rest: Bytes, eof: bool) {
        let link = Arc::clone(&self.0);
        // The command may have ended already, and then needs no more input.
        if let Ok(turn) = link.turn(&id).await {
            tokio::spawn(async move { link.write(&id, rest, eof, turn).await });
        }
    }

    /// Opens a terminal; [`AgentLink::attach`] reads it.
    ///
    /// # Errors
    ///
    /// The same as for [`AgentLink::run`].
    pub async fn open_terminal(&self, terminal: Terminal) -> Result<(), LinkError> {
        check_size(0, &terminal.envs)?;
        let request = v1::CreatePtyRequest {
            pty_id: terminal.id,
            cols: terminal.cols.into(),
            rows: terminal.rows.into(),
            shell: terminal.shell.unwrap_or_default(),
            cwd: terminal.cwd.unwrap_or_default(),
            envs: terminal.envs,
        };
        self.0.request(Payload::CreatePty(request)).await
    }

    /// Reads the output of a process from an offset on.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoSuchProcess`], or [`LinkError::Invalid`] if `offset` is
    /// beyond the end of the output.
    pub async fn attach(&self, process: &str, offset: u64) -> Result<Output, LinkError> {
        let output = self.0.begin_reader(offset)?;
        let request = v1::Subscribe {
            subscription_id: output.reader(),
            process_id: process.to_owned(),
            offset,
            window: self.0.window,
        };
        self.0.request(Payload::Subscribe(request)).await?;
        Ok(output)
    }

    /// Returns the agent's processes, as the agent last reported them.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        let state = self.0.lock();
        let processes = state.processes.values();
        processes.map(|entry| entry.process.clone()).collect()
    }

    /// Returns one process, as the agent last reported it.
    #[must_use]
    pub fn process(&self, id: &str) -> Option<Process> {
        let state = self.0.lock();
        state.processes.get(id).map(|entry| entry.process.clone())
    }

    /// Sends a signal to the process group of a process.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoSuchProcess`], or [`LinkError::Ended`] if the process has
    /// ended.
    pub async fn signal(&self, process: &str, signal: i32) -> Result<(), LinkError> {
        let request = v1::KillCommandRequest {
            command_id: process.to_owned(),
            signal,
        };
        self.0.request(Payload::KillCommand(request)).await
    }

    /// Writes to the standard input of a command, or to a terminal. Returns
    /// when all data is written, so a process that does not read its input
    /// blocks the caller.
    ///
    /// # Errors
    ///
    /// [`LinkError::Ended`] if the process accepts no more input.
    pub async fn input(&self, process: &str, data: Bytes, eof: bool) -> Result<(), LinkError> {
        let turn = self.0.turn(process).await?;
        if eof && turn.1 == ProcessKind::Terminal {
            let message = "the input of a terminal cannot be closed; send Ctrl-D (byte 4) instead";
            return Err(LinkError::Invalid(message.to_owned()));
        }
        self.0.write(process, data, eof, turn).await
    }

    /// Writes numbered input to a terminal. The agent writes it only if the
    /// terminal has no input of this client with this or a higher number, so a
    /// caller that does not know whether its input arrived can send it again.
    ///
    /// # Errors
    ///
    /// The same as for [`AgentLink::input`]; [`LinkError::Invalid`] if `data` is
    /// too long for one message, or if the process is not a terminal.
    pub async fn numbered_input(
        &self,
        terminal: &str,
        data: Bytes,
        client: &str,
        seq: u64,
    ) -> Result<(), LinkError> {
        if data.len() > MAX_INPUT {
            let message = format!("numbered input must have at most {MAX_INPUT} bytes");
            return Err(LinkError::Invalid(message));
        }
        let (turn, kind) = self.0.turn(terminal).await?;
        if kind != ProcessKind::Terminal {
            let message = "only the input of a terminal can have a number";
            return Err(LinkError::Invalid(message.to_owned()));
        }
        let payload = Payload::PtyInput(v1::PtyInput {
            pty_id: terminal.to_owned(),
            data,
            client: client.to_owned(),
            seq,
        });
        self.0.request_in_turn(payload, Some(turn)).await.map(drop)
    }

    /// Changes the size of a terminal.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoSuchProcess`], or [`LinkError::Ended`] if the process has
    /// ended.
    pub async fn resize(&self, terminal: &str, cols: u16, rows: u16) -> Result<(), LinkError> {
        let request = v1::ResizePtyRequest {
            pty_id: terminal.to_owned(),
            cols: cols.into(),
            rows: rows.into(),
        };
        self.0.request(Payload::ResizePty(request)).await
    }

    /// Hangs up a terminal, and kills its shell if the shell does not end.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoSuchProcess`], or [`LinkError::Ended`] if the process has
    /// ended.
    pub async fn close_terminal(&self, terminal: &str) -> Result<(), LinkError> {
        let request = v1::KillPtyRequest {
            pty_id: terminal.to_owned(),
        };
        self.0.request(Payload::KillPty(request)).await
    }

    /// Stops all processes in the sandbox, and then the agent. Returns when the
    /// agent is gone, or one second after the grace period.
    ///
    /// # Errors
    ///
    /// [`LinkError::Disconnected`] if the agent was no longer connected.
    pub async fn shut_down(&self, grace: Duration) -> Result<(), LinkError> {
        let mut gone = self.0.gone.subscribe();
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let request = Payload::Shutdown(v1::Shutdown { grace_ms });
        let leaving = async {
            self.0.request(request).await?;
            // An error would mean that the link itself has been dropped.
            let _ = gone.wait_for(|gone| *gone).await;
            Ok(())
        };
        let limit = grace.saturating_add(SHUT_DOWN_SLACK);
        tokio::time::timeout(limit, leaving).await.unwrap_or(Ok(()))
    }

    /// Returns the resources that the sandbox uses, as the agent last reported
    /// them.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.0.lock().usage
    }

    /// The version of the agent.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.0.version
    }
}

impl std::fmt::Debug for AgentLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentLink")
            .field("sandbox", &self.0.sandbox)
            .field("version", &self.0.version)
            .finish_non_exhaustive()
    }
}

/// Converts a timeout for the agent. The minimum is one millisecond, because 0
/// means no timeout.
fn timeout_ms(timeout: Duration) -> i64 {
    i64::try_from(timeout.as_millis())
        .unwrap_or(i64::MAX)
        .max(1)
}

/// Rejects a command whose message would be too large for the connection. The
/// operating system has a much lower limit, whose error the agent reports.
fn check_size(command: usize, envs: &BTreeMap<String, String>) -> Result<(), LinkError> {
    let envs: usize = envs.iter().map(|(k, v)| k.len() + v.len() + 16).sum();
    match command + envs {
        ..MAX_COMMAND => Ok(()),
        _ => Err(LinkError::CannotStart {
            kind: StartFailure::TooLong,
            message: "the command and its environment are too long".to_owned(),
        }),
    }
}
