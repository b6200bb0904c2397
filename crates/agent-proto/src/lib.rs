//! The contract between the server and the agent in a sandbox: the messages of
//! `proto/workspace/agent/v1/agent.proto`, and the limits that both ends use.
//!
//! Depends on no other crate of the workspace, and has no behaviour: the
//! agent's end is `elevo-agent`, the server's end is `elevo-agent-link`.

/// Messages and service, generated from the contract.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    reason = "generated; the comments are in the contract"
)]
pub mod v1 {
    tonic::include_proto!("workspace.agent.v1");
}

pub use prost::Message;

/// Metadata that holds `Bearer TOKEN`.
pub const AUTHORIZATION: &str = "authorization";

/// Metadata that names the sandbox.
pub const SANDBOX_ID: &str = "x-sandbox-id";

/// The prefix of the token in [`AUTHORIZATION`].
pub const BEARER: &str = "Bearer ";

/// Maximum bytes of output in one message.
pub const MAX_CHUNK: usize = 128 * 1024;

/// Maximum number of unacknowledged messages of output to one reader,
/// regardless of its window: many small messages must not use more memory than
/// a few large ones.
pub const MAX_CHUNKS_IN_FLIGHT: usize = 256;

/// Maximum bytes of input in one message, including the message that starts a
/// command.
pub const MAX_INPUT: usize = 64 * 1024;

/// Maximum number of readers on one connection.
pub const MAX_READERS: usize = 256;

/// Maximum bytes of a command that are kept for display.
pub const MAX_SHOWN_COMMAND: usize = 4096;

/// Maximum bytes of one message in either direction.
pub const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// HTTP/2 window of a stream, in bytes. It is larger than the window of a
/// reader, so that the windows of readers limit the flow of output.
pub const STREAM_WINDOW: u32 = 4 * 1024 * 1024;

/// HTTP/2 window of a connection, in bytes.
pub const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

/// HTTP/2 frame size in bytes, so that a chunk fits into one frame.
pub const FRAME: u32 = 256 * 1024;
