//! Tests the real agent, as a separate process, with the server's real end of
//! the connection.

#![allow(
    clippy::disallowed_methods,
    reason = "a test: clock and environment come from here"
)]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod commands;
mod connections;
mod files;
mod input;
mod isolation;
mod output;
mod recording;
mod support;
mod terminals;
mod tunnels;
mod upgrade;
