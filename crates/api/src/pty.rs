use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A wish for a terminal.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePty {
    /// Its width.
    #[schema(minimum = 1, maximum = 1000)]
    pub cols: u16,
    /// Its height.
    #[schema(minimum = 1, maximum = 1000)]
    pub rows: u16,
    /// The program in it; `/bin/bash` if there is one, else `/bin/sh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Where; `/workspace` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables beside those of the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub envs: BTreeMap<String, String>,
}

/// A terminal.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PtySession {
    /// Its id.
    pub id: String,
    /// Where to connect. `?offset=N` goes on after N bytes of output,
    /// `?format=binary` has output as binary frames.
    pub websocket_url: String,
}

/// A new size of a terminal.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resize {
    /// Its width.
    #[schema(minimum = 1, maximum = 1000)]
    pub cols: u16,
    /// Its height.
    #[schema(minimum = 1, maximum = 1000)]
    pub rows: u16,
}

/// What a client sends over the WebSocket of a terminal. A binary frame is
/// input as it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ClientMessage {
    /// Keys.
    Input {
        /// In base64.
        data: String,
    },
    /// A new size.
    Resize {
        /// Its width.
        cols: u16,
        /// Its height.
        rows: u16,
    },
    /// To be answered by a pong.
    Ping,
}

/// What the server sends over the WebSocket of a terminal.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ServerMessage {
    /// Where the output that follows begins; the first message.
    Attached {
        /// How many bytes came before.
        offset: u64,
    },
    /// Output.
    Output {
        /// In base64.
        data: String,
        /// How many bytes came before.
        offset: u64,
    },
    /// The terminal has ended; the last message.
    Exit {
        /// How.
        #[serde(rename = "exitCode")]
        exit_code: i32,
    },
    /// The answer to a ping.
    Pong,
    /// Something failed.
    Error {
        /// What.
        message: String,
    },
    /// The server stops, and the terminal goes on; the last message before the
    /// connection is closed with code 1001.
    Stopping {
        /// How to go on.
        message: String,
    },
}
