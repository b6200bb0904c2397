use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A command to run by `/bin/sh -c`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunCommand {
    /// What the shell reads.
    #[schema(min_length = 1, max_length = 131072, example = "python main.py")]
    pub command: String,
    /// Where; `/workspace` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables beside those of the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
    /// Milliseconds after which it is ended; 60000 by default, 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 86400000)]
    pub timeout: Option<u32>,
    /// Whether output comes as it is written, as server-sent events.
    #[serde(default)]
    pub stream: bool,
    /// Bytes of output after which the rest is thrown away: 1 MiB by default,
    /// without limit for streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 67108864)]
    pub max_output_size: Option<u64>,
    /// Whether to answer at once and let it run: it has no time-out unless one
    /// is given, and keeps the newest of its output.
    #[serde(default)]
    pub background: bool,
    /// What it reads from standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1048576)]
    pub stdin: Option<String>,
    /// Whether more can be sent to its standard input later.
    #[serde(default)]
    pub open_stdin: bool,
}

/// How bytes are written in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As text.
    #[default]
    Utf8,
    /// In base64, since they are no text.
    Base64,
}

impl Encoding {
    /// Whether it need not be said.
    pub fn is_text(&self) -> bool {
        *self == Self::Utf8
    }
}

/// A command that has ended. A non-zero exit is a result, not an error.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandResult {
    /// Its id.
    pub command_id: String,
    /// How it ended; 128 and the signal if one ended it.
    pub exit_code: i32,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What it wrote.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Whether some of it was thrown away.
    pub truncated: bool,
    /// How `stdout` is written.
    #[serde(default, skip_serializing_if = "Encoding::is_text")]
    pub stdout_encoding: Encoding,
    /// How `stderr` is written.
    #[serde(default, skip_serializing_if = "Encoding::is_text")]
    pub stderr_encoding: Encoding,
}

/// A command that goes on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandStarted {
    /// Its id, to attach to it or end it.
    pub command_id: String,
}

/// What an event of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StreamKind {
    /// Output.
    Stdout,
    /// Output for errors.
    Stderr,
    /// It has ended; the last event.
    Exit,
    /// Something failed; the last event.
    Error,
    /// Output that is no longer there, from `offset` to `end`.
    Gap,
    /// It has started; the first event of a command that was just run.
    Start,
    /// The server stops, and the command goes on; the last event. Connect again
    /// from `offset` on, or with the id of this event.
    Stopping,
}

/// An event of a stream of output.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamEvent {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: StreamKind,
    /// The command.
    pub command_id: String,
    /// Output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// How `data` is written.
    #[serde(default, skip_serializing_if = "Encoding::is_text")]
    pub encoding: Encoding,
    /// Where in the output `data` begins, standard output and error together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Where a gap ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether its time-out ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Whether output was thrown away, since `maxOutputSize` was reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// What failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When, in milliseconds since 1970.
    pub timestamp: i64,
}

/// A command that runs or has ended not long ago.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandInfo {
    /// Its id.
    pub command_id: String,
    /// What was run.
    pub command: String,
    /// Whether it runs.
    pub running: bool,
    /// When it started, in milliseconds since 1970.
    pub started_at: i64,
    /// How much it has written, as far as is known.
    pub output_size: u64,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Whether its time-out ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
}

/// The commands of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CommandList {
    /// Those that run, and the last that have ended.
    pub items: Vec<CommandInfo>,
}

/// A signal for a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kill {
    /// Its number; 15 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 31)]
    pub signal: Option<i32>,
}

/// Bytes for the standard input of a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandInput {
    /// In base64.
    #[serde(default)]
    #[schema(max_length = 1398104)]
    pub data: String,
    /// Whether nothing follows.
    #[serde(default)]
    pub eof: bool,
}
