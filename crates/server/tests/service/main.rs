//! Tests of the whole service, with the real agent.
//!
//! Most run the server on a simulated container engine and need neither Docker
//! nor root: `cargo nextest run --profile unprivileged` selects them. The others
//! are in modules `on_docker` and `as_root`, or in `attacks`, `fulldisk` and
//! `warm`. They need the engine of `scripts/services up docker`, the agent of
//! `scripts/agent` and root, and fail with instructions without them.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::print_stderr,
    reason = "what a server logged helps to find out why"
)]
#![allow(clippy::disallowed_methods, reason = "what is run needs settings")]

mod attacks;
mod audit;
mod batch;
mod browser;
mod changes;
mod command_ids;
mod database;
mod deciding;
mod descriptors;
mod downgrade;
mod elsewhere;
mod engineless;
mod errors;
mod events;
mod expiry;
mod fair;
mod files;
mod fulldisk;
mod garbage;
mod guide;
mod harness;
mod hidden;
mod hostile;
mod idempotency;
mod installation;
mod installed;
mod keys;
mod labels;
mod lifecycle;
mod local_users;
mod lost;
mod me;
mod metrics;
mod moves;
mod names;
mod operations;
mod overload;
mod pages;
mod policies;
mod ports;
mod process;
mod projects;
mod pty;
mod quarantine;
mod recovery;
mod refresh;
mod replays;
mod retention;
mod revoked;
mod routes;
mod secrets;
mod several;
mod shared;
mod single_files;
mod snapshots;
mod stopping;
mod stored_files;
mod syncing;
mod templates;
mod tenants;
mod tickets;
mod tls;
mod traces;
mod unseen;
mod warm;
mod watch;
mod webhooks;
mod workspaces;
