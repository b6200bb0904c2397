//! The commands, one per file: `commands/NOUN/VERB.rs`; for a command without a
//! noun `commands/local/VERB.rs` if it works on a directory and its store, else
//! `commands/VERB.rs`. A file has the arguments of its command, the help and
//! `run`. The file of a noun has the list of its commands.
//!
//! A command may use `client`, `local`, `server_socket`, `options`, `input`,
//! `output` and `errors`, and no other command.

pub(crate) mod agent;
pub(crate) mod attach;
pub(crate) mod audit;
pub(crate) mod catalog;
pub(crate) mod completions;
pub(crate) mod context;
pub(crate) mod cp;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod files;
pub(crate) mod help;
pub(crate) mod key;
pub(crate) mod kill;
pub(crate) mod local;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod man;
pub(crate) mod port;
pub(crate) mod project;
pub(crate) mod ps;
pub(crate) mod review;
pub(crate) mod sandbox;
pub(crate) mod server;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod store;
pub(crate) mod template;
pub(crate) mod up;
pub(crate) mod version;
pub(crate) mod webhook;
pub(crate) mod whoami;
pub(crate) mod ws;
