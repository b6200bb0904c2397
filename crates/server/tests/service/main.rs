//! Tests of the whole service: the real server as a process, a real container
//! engine, the real agent. `scripts/services up docker` and `scripts/agent`
//! provide them; without them these tests fail and report that.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    clippy::print_stderr,
    reason = "what a server logged helps to find out why"
)]
#![allow(clippy::disallowed_methods, reason = "what is run needs settings")]

mod attacks;
mod audit;
mod changes;
mod descriptors;
mod engineless;
mod events;
mod expiry;
mod fair;
mod files;
mod fulldisk;
mod garbage;
mod harness;
mod hidden;
mod hostile;
mod idempotency;
mod installation;
mod keys;
mod lifecycle;
mod local_users;
mod lost;
mod metrics;
mod moves;
mod overload;
mod policies;
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
mod shared;
mod stopping;
mod syncing;
mod templates;
mod tenants;
mod tls;
mod traces;
mod unseen;
mod warm;
mod webhooks;
