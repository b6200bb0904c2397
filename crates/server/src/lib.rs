//! The service: sandboxes for agents over a REST API, on one machine.
//!
//! ```text
//! serve ─► http ─┬─► app ─┬─► platform ─► config
//!       └► jobs ─┘        └─► catalog · workspace · sandbox · agent-link
//! ```
//!
//! This crate may depend on every library below it. A handler in `http` reads a
//! request, calls a service of `app` and writes the response; it touches no
//! database, no container and no file. `jobs` call services at intervals or
//! after events. A service of `app` holds its own state and the services below
//! it; it knows neither `http` nor `jobs`. `platform` is the machine: clock,
//! listeners, files of the data directory, logs and metrics. Nothing that a
//! restart needs is only in memory: rows are in the catalog, files are in
//! workspaces, and running commands are held by the agents. The clock and
//! random numbers are read in `platform::clock`.

mod app;
mod command;
mod config;
mod failure;
mod http;
mod jobs;
mod platform;
mod serve;

pub use app::App;
pub use app::resources::Parts;
pub use command::run_command;
pub use config::descriptions::settings;
pub use config::{
    AuditConfig, AuditedCommands, CatalogDatabase, Config, InvalidConfig, Limits, Secret, Tls,
    TracesConfig, secrets_key_file,
};
pub use elevo_catalog::PostgresCheck;
pub use elevo_store_cluster::Compared;
pub use failure::Failure;
pub use http::admin_socket::admin_socket;
pub use http::openapi_json;
pub use platform::backup::{RestoreError, RestoredServer, restore_server};
pub use platform::catalog_copy::{CopyError, copy_catalog};
pub use platform::catalog_place::CatalogPlace;
pub use platform::clock::{Clocks, Reading};
pub use platform::installation::{Missing, Refusal};
pub use platform::outgoing::choose_cryptography;
pub use platform::privacy::keep_private;
pub use platform::signals::Signals;
pub use platform::store_copy::{CopiedTenant, StoreCopyError, check_alone, copy_store, open_store};
pub use platform::store_place::{CheckResult, OpenStore, StorePlace};
pub use platform::trace::{TRACE_TARGET, Traces};
pub use platform::vault::has_secrets_key;
pub use serve::{Addresses, Server};
