//! Runs a server with a real container engine and a real agent, and the commands
//! that use it, as a user would.

#![allow(
    clippy::disallowed_methods,
    reason = "the commands need an engine, an agent and a PATH"
)]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::print_stderr,
    reason = "the server's log is part of the report"
)]

mod backup;
mod batch;
mod commands;
mod database;
mod deciding;
mod demo;
mod events;
mod files;
mod fixtures;
mod hidden_mounts;
mod imports;
mod labels;
mod login;
mod names;
mod parked;
mod ports;
mod postgres_server;
mod process;
mod projects;
mod removing;
mod server;
mod shared_store;
mod single_files;
mod tables;
mod tls;
mod undo;
mod up;
mod upgrade;
mod workspaces;
