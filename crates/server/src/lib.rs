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

mod app;
mod config;
mod failure;
mod http;
mod jobs;
mod platform;
mod serve;

pub use crate::app::App;
pub use crate::app::resources::Parts;
pub use crate::config::AuditConfig;
pub use crate::config::AuditedCommands;
pub use crate::config::Config;
pub use crate::config::InvalidConfig;
pub use crate::config::Limits;
pub use crate::config::Secret;
pub use crate::config::Tls;
pub use crate::config::TracesConfig;
pub use crate::config::secrets_key_file;
pub use crate::config::settings;
pub use crate::failure::Failure;
pub use crate::http::admin_socket::admin_socket;
pub use crate::http::openapi_json;
pub use crate::platform::backup::RestoreError;
pub use crate::platform::backup::RestoredServer;
pub use crate::platform::backup::restore_server;
pub use crate::platform::clock::Clocks;
pub use crate::platform::clock::Reading;
pub use crate::platform::installation::Missing;
pub use crate::platform::installation::Refusal;
pub use crate::platform::outgoing::choose_cryptography;
pub use crate::platform::privacy::keep_private;
pub use crate::platform::signals::Signals;
pub use crate::platform::trace::TRACE_TARGET;
pub use crate::platform::trace::Traces;
pub use crate::platform::vault::has_secrets_key;
pub use crate::serve::Addresses;
pub use crate::serve::Server;
