//! Commands that a server runs on behalf of an `elevo` process, because it holds
//! the store that they write to.
//!
//! A server listens on `DATA/elevo.sock`, mode 0600, and accepts calls only from
//! its own user. A call is a connection with one request. The response is the
//! output of the command, as it is printed, and its exit code:
//!
//! ```text
//! frame     kind: 1 byte, length: 4 bytes (big-endian), payload: length bytes
//! kinds     R  request, JSON; the caller's first frame
//!           I  standard input, of commands that read it; an empty frame ends it
//!           O  standard output        E  standard error
//!           X  the exit code, 1 byte; the last frame
//! request   {"version":1, "args":[base64…], "here":base64, "author":"…",
//!            "terminal":bool, "to_file":bool, "colour":bool, "colour_errors":bool}
//! ```
//!
//! `args` are the arguments without the program name. A frame has at most 1 MiB,
//! and a server runs at most 16 calls at a time. A caller that disconnects does
//! not cancel its command.

mod call;
mod frame;
mod request;
mod serve;

pub(crate) use call::{call, serves};
pub(crate) use serve::{CommandFailure, Dispatch, SocketServer};

/// Environment variables that set options. The server ignores its own, because
/// each caller has others.
pub(crate) const VARIABLES: [&str; 3] = ["ELEVO_STORE", "ELEVO_WORKSPACES", "ELEVO_AUTHOR"];
