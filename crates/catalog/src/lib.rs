//! What the service knows, apart from files: tenants, agents and their keys,
//! sandboxes, templates, and which requests have been answered already.
//!
//! Depends on `elevo-core`. Reads no clock, no random source and no
//! environment: times, ids and secrets are passed in. Knows nothing of
//! containers, workspaces or HTTP, and never keeps a secret: only its hash.
//!
//! [`Catalog`] says what is promised; [`SqliteCatalog`] keeps it in one file.
//! No database shows through the trait, and no call spans two stores.

mod bounds;
mod catalog;
mod change;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod query;
mod records;
mod request;
pub mod secret;
mod sqlite;

pub use bounds::{
    MAX_BATCH, MAX_BODY_BYTES, MAX_LISTED, MAX_NAME_BYTES, MAX_PAGE, MAX_REASON_BYTES,
    MAX_SPEC_BYTES, MAX_TEXT_BYTES, MAX_WORDS,
};
pub use catalog::Catalog;
pub use change::SandboxChange;
pub use error::{Error, Kind, Limit, Result};
pub use query::{AddLimits, Page, Position, SandboxQuery};
pub use records::{Agent, ApiKey, KeyLimits, Sandbox, Template, Tenant};
pub use request::{Begun, IdempotentRequest};
pub use sqlite::{SqliteCatalog, SqliteOptions};
