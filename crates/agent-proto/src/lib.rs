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
use prost::bytes::Bytes;

/// Metadata that holds `Bearer TOKEN`.
pub const AUTHORIZATION: &str = "authorization";

/// Metadata that names the sandbox.
pub const SANDBOX_ID: &str = "x-sandbox-id";

/// Metadata that names a tunnel, in decimal.
pub const TUNNEL_ID: &str = "x-tunnel-id";

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

/// Maximum number of open tunnels of one agent.
pub const MAX_TUNNELS: usize = 256;

/// Maximum bytes of data in one piece of a tunnel.
pub const MAX_PIECE: usize = 64 * 1024;

/// Size below which a piece of a tunnel is filled up. HTTP/2 libraries close a
/// connection with many waiting frames that are smaller.
pub const SMALL_PIECE: usize = 256;

/// Maximum bytes of a file of the kernel, whose metadata have no size.
pub const MAX_KERNEL_FILE: usize = 1024 * 1024;

/// Maximum bytes of one message of a tunnel.
pub const MAX_PIECE_MESSAGE: usize = MAX_PIECE + 4096;

/// Maximum HTTP/2 streams of a connection: the stream of messages, the tunnels,
/// and streams that are being closed or rejected.
pub const MAX_STREAMS: u32 = MAX_TUNNELS as u32 + 8;

/// HTTP/2 window of a stream, in bytes: the memory that data of one tunnel can
/// use at a receiver that does not read it. The stream of messages is always
/// read.
pub const STREAM_WINDOW: u32 = 256 * 1024;

/// HTTP/2 window of a connection, in bytes. It has space for all streams, so
/// that tunnels that are not read cannot hold up the others.
pub const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;

/// HTTP/2 frame size in bytes, so that a chunk fits into one frame.
pub const FRAME: u32 = 256 * 1024;

/// Returns a piece of a tunnel with this data.
#[must_use]
pub fn data_piece(data: Bytes) -> v1::TunnelPiece {
    static FILLER: [u8; SMALL_PIECE] = [0; SMALL_PIECE];
    let missing = SMALL_PIECE.saturating_sub(data.len());
    v1::TunnelPiece {
        filler: Bytes::from_static(&FILLER[..missing]),
        content: Some(v1::tunnel_piece::Content::Data(data)),
    }
}

/// Returns the piece that ends a direction of a tunnel.
#[must_use]
pub fn end_piece() -> v1::TunnelPiece {
    v1::TunnelPiece {
        filler: Bytes::new(),
        content: Some(v1::tunnel_piece::Content::End(true)),
    }
}

/// Returns the text that identifies a version of a file. It changes with every
/// change of the content or the metadata, except within one tick of the clock.
#[must_use]
pub fn file_tag(stat: &v1::FileStat) -> String {
    let nanos = |seconds: i64, nanos: u32| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    format!(
        "{:x}-{:x}-{:x}-{:x}",
        stat.inode,
        stat.size,
        nanos(stat.modified_seconds, stat.modified_nanos),
        nanos(stat.changed_seconds, stat.changed_nanos)
    )
}
