//! The service: sandboxes for agents over a REST API, on one machine.
//!
//! ```text
//! http ─► app ─► catalog · workspace · sandbox · agent-link
//! ```
//!
//! May depend on every library below. A handler in `http` reads a request,
//! calls `app` and writes the response; it touches no database, no container
//! and no file. `app` does not know about HTTP. Nothing that a restart needs is
//! only in memory: rows are in the catalog, files in workspaces, running
//! commands with the agents. The clock and random numbers are read in `clock`.

mod admin;
mod app;
mod archive;
mod audit;
mod backup;
mod clock;
mod config;
mod deliveries;
mod descriptors;
mod failure;
mod http;
mod installation;
mod jobs;
mod listen;
mod metrics;
mod outgoing;
mod owners;
mod privacy;
mod room;
mod serve;
mod share;
mod signals;
mod trace;
mod vault;

pub use admin::admin_socket;
pub use app::{App, Parts};
pub use backup::{RestoreError, RestoredServer, restore_server};
pub use clock::{Clocks, Reading};
pub use config::{
    AuditConfig, AuditedCommands, Config, InvalidConfig, Limits, Secret, Tls, TracesConfig,
    secrets_key_file, settings,
};
pub use failure::Failure;
pub use http::openapi_json;
pub use installation::{Missing, Refusal};
pub use outgoing::choose_cryptography;
pub use privacy::keep_private;
pub use serve::{Addresses, Server};
pub use signals::Signals;
pub use trace::{TRACE_TARGET, Traces};
pub use vault::has_secrets_key;
