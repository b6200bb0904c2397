//! The server's end of the connections with the agents in sandboxes: accepts
//! connections, checks tokens, and turns messages into calls.
//!
//! Depends on `elevo-agent-proto`. Holds no state that the agent does not have:
//! processes and their output live in the sandbox, so a restarted server knows
//! everything again as soon as the agents reconnect. Trusts no agent, since
//! agents run next to untrusted code: everything that they send is bounded
//! here. Never logs a token.
//!
//! ```text
//! serve_unix, serve_tcp ─► guard ─► service ─► session ─► AgentLink
//!                          (limits)  (token)   (one per     (calls of the
//!                                               connection)   server)
//!                                    └─────► tunnel ─► TunnelStream
//! ```

mod calls;
mod dispatch;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod guard;
mod link;
mod links;
mod outgoing;
mod reader;
mod receive;
mod service;
mod sparing;
mod tunnel;
mod types;

pub use error::{LinkError, StartFailure};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzing::{receive_any_messages, receive_any_pieces};
pub use link::AgentLink;
pub use links::{AgentLinks, Authenticate, LinkEvent, Settings};
pub use reader::Output;
pub use tunnel::{
    FileCondition, FileFailure, FileKind, FileList, FileStat, FileUpload, OpenFile, PutFile,
    TunnelStream,
};
pub use types::{
    AgentCall, Command, Event, Exit, Process, ProcessKind, ProcessState, Stream, Terminal, Usage,
};
