//! The output of commands: as a stream, and collected for a response.

use crate::app::processes::Processes;
use crate::failure::{Failure, Result};
use crate::platform::share::{Held, Shares};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use elevo_agent_link::AgentLinks;
use elevo_agent_link::{Event, Exit, LinkError, Output, Stream};
use elevo_api as api;
use elevo_api::Encoding;
use elevo_core::{ErrorCode, SandboxId, TenantId};
use std::time::Duration;

/// The output of a command or terminal as it arrives. It continues after the
/// agent has lost its connection and reconnected.
pub(crate) struct Reading {
    pub(super) links: AgentLinks,
    pub(super) sandbox: SandboxId,
    pub(crate) process: String,
    /// The offset of the next byte of output.
    pub(super) position: u64,
    pub(super) output: Output,
}

impl Reading {
    /// Waits for the next event of the process. If the agent has lost its
    /// connection, waits at most 30 seconds for the agent.
    pub(crate) async fn next(&mut self) -> Result<Event> {
        loop {
            match self.output.next().await {
                Ok(event) => {
                    self.position = match &event {
                        Event::Data { offset, data, .. } => offset + data.len() as u64,
                        Event::Gap { to, .. } => *to,
                        Event::Exit(exit) => exit.offset,
                    };
                    return Ok(event);
                }
                Err(LinkError::Disconnected) => self.attach_again().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn attach_again(&mut self) -> Result<()> {
        let patience = Duration::from_secs(30);
        let connected = tokio::time::timeout(patience, self.links.connected(&self.sandbox));
        let link = connected.await.map_err(|_| LinkError::Disconnected)?;
        self.output = link.attach(&self.process, self.position).await?;
        Ok(())
    }
}

/// The result of a command that has ended, and the permit for the memory of its
/// output.
pub(crate) struct Ended {
    pub(crate) result: api::CommandResult,
    pub(crate) held: Held,
}

/// The output of a command so far, up to its limit.
struct Collected<'a> {
    shares: &'a Shares,
    tenant: TenantId,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Bytes of output that may still be added.
    room: u64,
    truncated: bool,
    /// Bytes of memory that the output and its form in the response need.
    cost: usize,
    /// Bytes of memory that this command may use: [`UNCOUNTED`], and the permits
    /// in `held`.
    counted: usize,
    held: Held,
}

/// Bytes of memory that each command may use without a permit from the tenant's
/// share. Agents limit the number of commands, which limits the sum.
const UNCOUNTED: usize = 32 << 10;

/// Bytes of memory in one permit.
const COUNTED: usize = 64 << 10;

impl Collected<'_> {
    /// Adds output as far as the limit and the memory of the tenant allow.
    fn take(&mut self, stream: Stream, data: &[u8]) {
        let room = usize::try_from(self.room).unwrap_or(usize::MAX);
        let mut fits = 0;
        for byte in data.iter().take(room) {
            self.cost += cost(*byte);
            if self.cost > self.counted && !self.count_more() {
                // From now on the output is cut, even if memory becomes free:
                // a gap in the middle would be misleading.
                self.room = fits as u64;
                break;
            }
            fits += 1;
        }
        self.truncated |= fits < data.len();
        self.room -= fits as u64;
        let into = match stream {
            Stream::Stderr => &mut self.stderr,
            _ => &mut self.stdout,
        };
        into.extend_from_slice(&data[..fits]);
    }

    /// Acquires another permit for memory. Returns `false` if the tenant's share
    /// is used up.
    fn count_more(&mut self) -> bool {
        let Some(more) = self.shares.hold(self.tenant, COUNTED) else {
            return false;
        };
        self.held.add(more);
        self.counted += COUNTED;
        true
    }

    fn result(self, command_id: String, exit: &Exit) -> api::CommandResult {
        let (stdout, stdout_encoding) = encode(self.stdout, self.truncated);
        let (stderr, stderr_encoding) = encode(self.stderr, self.truncated);
        api::CommandResult {
            command_id,
            exit_code: exit_code(exit),
            signal: exit.signal,
            timed_out: exit.timed_out,
            stdout,
            stderr,
            truncated: self.truncated,
            stdout_encoding,
            stderr_encoding,
        }
    }
}

/// Returns the memory that a byte of output needs: one byte for itself, and the
/// length of its form in JSON.
fn cost(byte: u8) -> usize {
    match byte {
        b'\n' | b'\r' | b'\t' | b'"' | b'\\' => 3,
        ..b' ' => 7,
        _ => 2,
    }
}

/// Encodes bytes as text if they are UTF-8, else as base64. If the output was
/// `cut`, removes an incomplete character at its end first.
fn encode(mut bytes: Vec<u8>, cut: bool) -> (String, Encoding) {
    if cut
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    match String::from_utf8(bytes) {
        Ok(text) => (text, Encoding::Utf8),
        Err(error) => (STANDARD.encode(error.as_bytes()), Encoding::Base64),
    }
}

/// Returns the exit code or, as shells do, 128 plus the signal.
pub(crate) fn exit_code(exit: &Exit) -> i32 {
    exit.code.unwrap_or(128 + exit.signal.unwrap_or_default())
}

impl Processes {
    /// Waits for the end of a command. Returns its exit code and the first `room`
    /// bytes of its output.
    pub(crate) async fn collect(
        &self,
        tenant: TenantId,
        mut reading: Reading,
        room: u64,
    ) -> Result<Ended> {
        let mut collected = Collected {
            shares: &self.stores.shares,
            tenant,
            stdout: Vec::new(),
            stderr: Vec::new(),
            room,
            truncated: false,
            cost: 0,
            counted: UNCOUNTED,
            held: Held::default(),
        };
        let exit = loop {
            match reading.next().await? {
                Event::Data { stream, data, .. } => collected.take(stream, &data),
                Event::Gap { .. } => collected.truncated = true,
                Event::Exit(exit) => break exit,
            }
        };
        let held = std::mem::take(&mut collected.held);
        let result = collected.result(reading.process, &exit);
        match exit.timed_out {
            false => Ok(Ended { result, held }),
            true => {
                let failure = Failure::new(
                    ErrorCode::ProcessTimeout,
                    "the command did not end within its timeout and was killed; raise `timeout` \
                     or run it in the background",
                );
                let details = serde_json::to_value(result).unwrap_or_default();
                Err(Failure { details, ..failure })
            }
        }
    }
}
