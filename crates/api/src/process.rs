use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ErrorBody;

/// A command to run: either `command` or `args`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunCommand {
    /// Id of the command, chosen by the client: 1 to 64 letters, digits, `.`,
    /// `_` and `-`. The server chooses an id if this is absent. A request with
    /// the id of an earlier command in this sandbox never starts a second one:
    /// the same request of the same key attaches to the command, from its first
    /// byte of output; any other request is rejected (`COMMAND_ID_TAKEN`). If
    /// the output was deleted, the error is `OUTPUT_GONE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    pub command_id: Option<String>,
    /// The command line for `/bin/sh -c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 131072, example = "python main.py")]
    pub command: Option<String>,
    /// A program and its arguments, which run without a shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 4096)]
    pub args: Vec<String>,
    /// Working directory; `/workspace` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables, in addition to those of the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
    /// Milliseconds until the command is killed; 0 for no time-out. Default:
    /// the server's setting, which is 60000 unless it is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 86400000)]
    pub timeout: Option<u32>,
    /// Whether to send output as it is written, as server-sent events.
    #[serde(default)]
    pub stream: bool,
    /// Maximum bytes of output; the rest is discarded. Default: 1 MiB, and no
    /// limit for streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 67108864)]
    pub max_output_size: Option<u64>,
    /// Whether to respond at once and leave the command running. A background
    /// command has no time-out by default, and the newest part of its output is
    /// kept.
    #[serde(default)]
    pub background: bool,
    /// Standard input of the command, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1048576)]
    pub stdin: Option<String>,
    /// Standard input of the command, as bytes in base64, in place of `stdin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1398104)]
    pub stdin_base64: Option<String>,
    /// Whether to leave standard input open for more data.
    #[serde(default)]
    pub open_stdin: bool,
}

/// Encoding of bytes in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Text.
    #[default]
    Utf8,
    /// Base64, for bytes that are not valid UTF-8.
    Base64,
}

impl Encoding {
    /// Returns whether the encoding is the default, which is not serialized.
    pub fn is_text(&self) -> bool {
        *self == Self::Utf8
    }
}

/// A command that has ended. A non-zero exit code is a result, not an error.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandResult {
    /// Id of the command.
    pub command_id: String,
    /// Exit code; 128 plus the signal number if a signal killed the command.
    pub exit_code: i32,
    /// The signal that killed the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether the command was killed by its time-out. The result is then in
    /// the `details` of the error `PROCESS_TIMEOUT`.
    #[serde(default)]
    pub timed_out: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Whether some output was discarded.
    pub truncated: bool,
    /// Encoding of `stdout`.
    #[serde(default, skip_serializing_if = "Encoding::is_text")]
    pub stdout_encoding: Encoding,
    /// Encoding of `stderr`.
    #[serde(default, skip_serializing_if = "Encoding::is_text")]
    pub stderr_encoding: Encoding,
}

/// A command that is still running.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandStarted {
    /// Id of the command, to attach to it or kill it.
    pub command_id: String,
}

/// Kind of an event in a stream of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StreamKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The command has ended; the last event.
    Exit,
    /// The stream failed; the last event.
    Error,
    /// The output from `offset` to `end` was already discarded.
    Gap,
    /// The command has started; the first event of a new command.
    Start,
    /// The server is stopping and the command keeps running; the last event.
    /// Reconnect at `offset`, or with the id of this event.
    Stopping,
}

/// An event in a stream of output.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamEvent {
    /// Kind of the event.
    #[serde(rename = "type")]
    pub kind: StreamKind,
    /// Id of the command.
    pub command_id: String,
    /// Output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Encoding of `data`.
    #[serde(default, skip_serializing_if = "Encoding::is_text")]
    pub encoding: Encoding,
    /// Offset in the combined standard output and standard error. Depending on
    /// `type`, this is where `data` starts, where a `gap` starts, where the
    /// output ended (`exit`), or where the output continues (`stopping`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Offset at which a gap ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// Exit code of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that killed the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether the command was killed by its time-out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Whether output was discarded because of `maxOutputSize`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// How to reconnect after a stop of the server (`stopping`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why the stream failed (`error`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// Time of the event, in milliseconds since 1970.
    pub timestamp: i64,
}

/// A command that is running or ended recently.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandInfo {
    /// Id of the command.
    pub command_id: String,
    /// The command line, or `args` with spaces between them; its beginning if it
    /// is long.
    pub command: String,
    /// Whether the command is running.
    pub running: bool,
    /// Process id in the sandbox.
    pub pid: i32,
    /// When the command started.
    pub started_at: String,
    /// When the command ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Number of output bytes, as last reported by the workspace agent.
    pub output_size: u64,
    /// Exit code of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that killed the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether the command was killed by its time-out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
}

/// A page of the commands of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CommandPage {
    /// Running and recently ended commands, oldest first.
    pub items: Vec<CommandInfo>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A signal to send to a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kill {
    /// Signal number; 15 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 31)]
    pub signal: Option<i32>,
}

/// Bytes for the standard input of a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandInput {
    /// The bytes, in base64.
    #[serde(default)]
    #[schema(max_length = 1398104)]
    pub data: String,
    /// Whether to close standard input after `data`.
    #[serde(default)]
    pub eof: bool,
}
