//! Runs the real `elevo` as a user would, and checks its output and exit codes.

#![allow(clippy::disallowed_methods, reason = "the commands need a PATH")]

mod archives;
mod checkout;
mod closed;
mod commands;
mod common;
mod damage;
mod diff;
mod docs;
mod errors;
mod fixtures;
mod gc;
mod hostile;
mod ignored;
mod inside;
mod removing;
mod snapshots;
mod status;
mod terminal;
mod unprivileged;
mod ws;
mod ws_merge;
