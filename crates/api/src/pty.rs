use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ErrorBody;

/// Request to create a terminal.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePty {
    /// Width in columns.
    #[schema(minimum = 1, maximum = 1000)]
    pub cols: u16,
    /// Height in rows.
    #[schema(minimum = 1, maximum = 1000)]
    pub rows: u16,
    /// The program to run. Default: `/bin/bash` if it exists, else `/bin/sh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Working directory; `/workspace` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables, in addition to those of the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
}

/// A terminal.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PtySession {
    /// Id of the terminal.
    pub id: String,
    /// WebSocket URL of the terminal. `?offset=N` skips the first N bytes of
    /// output, and `?format=binary` sends output as binary frames.
    pub websocket_url: String,
}

/// New size of a terminal.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resize {
    /// Width in columns.
    #[schema(minimum = 1, maximum = 1000)]
    pub cols: u16,
    /// Height in rows.
    #[schema(minimum = 1, maximum = 1000)]
    pub rows: u16,
}

/// The messages on the WebSocket of a terminal, for the description of the API.
/// This object itself is never sent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PtyMessages {
    /// A text message that the client sends.
    pub client: PtyClientMessage,
    /// A text message that the server sends.
    pub server: PtyServerMessage,
}

/// A message from the client on the WebSocket of a terminal. A binary frame is
/// raw input.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PtyClientMessage {
    /// Keyboard input.
    Input {
        /// The bytes, in base64.
        data: String,
        /// Number of the input, from 1 on and ascending. The server responds
        /// with an `ack` when the terminal has the input, and ignores a number
        /// that the terminal already has from this `client`. So a client that
        /// reconnects sends the input again that was not acknowledged. Numbered
        /// input has at most 64 KiB.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 1)]
        seq: Option<u64>,
    },
    /// A change of size.
    Resize {
        /// Width in columns.
        cols: u16,
        /// Height in rows.
        rows: u16,
    },
    /// Requests a `pong`.
    Ping,
}

/// A message from the server on the WebSocket of a terminal.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PtyServerMessage {
    /// The offset at which the following output begins. This is the first
    /// message, and it is sent again after a gap in the output.
    Attached {
        /// Number of output bytes before the following output.
        offset: u64,
    },
    /// Output.
    Output {
        /// The bytes, in base64.
        data: String,
        /// Number of output bytes before the following output.
        offset: u64,
    },
    /// The terminal has ended; the last message.
    Exit {
        /// Exit code of the program; 128 plus the signal number if a signal
        /// killed it.
        #[serde(rename = "exitCode")]
        exit_code: i32,
        /// The signal that killed the program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// The terminal has all numbered input of this client up to `seq`.
    Ack {
        /// Number of the input.
        seq: u64,
    },
    /// The response to a `ping`.
    Pong,
    /// An operation failed.
    Error {
        /// The error.
        error: ErrorBody,
    },
    /// The server is stopping and the terminal keeps running; the last message
    /// before the server closes the connection with code 1001.
    Stopping {
        /// How to reconnect.
        message: String,
    },
}
