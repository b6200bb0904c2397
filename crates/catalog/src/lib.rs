//! What the service knows, apart from files: tenants, agents and their keys,
//! sandboxes, templates, and which requests have been answered already; projects
//! with their log, policies, reviews and workspaces.
//!
//! Depends on `elevo-core` and `elevo-objects`. Reads no clock, no random source
//! and no environment: times, ids and secrets are passed in. Names snapshots but
//! never reads one; keeps policies but never interprets one. Knows nothing of
//! containers, directories or HTTP, and keeps secrets only as hashes or encrypted; what
//! webhooks sign with excepted, which has to be known to sign.
//!
//! [`Catalog`], [`Projects`] and [`Events`] say what is promised; [`SqliteCatalog`] keeps it
//! in one file. No database shows through the traits, and no call spans two
//! stores.

mod anything;
mod bounds;
mod catalog;
mod change;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod events;
mod projects;
mod query;
mod records;
mod request;
mod roots;
pub mod secret;
mod sqlite;
mod stored;

#[doc(hidden)]
pub use anything::read_any_row;
pub use bounds::{
    MAX_BATCH, MAX_BODY_BYTES, MAX_CHANGES, MAX_COUNTS_BYTES, MAX_DETAIL_BYTES, MAX_LISTED,
    MAX_NAME_BYTES, MAX_PAGE, MAX_POLICY_BYTES, MAX_REASON_BYTES, MAX_REVIEWS, MAX_SPEC_BYTES,
    MAX_STEPS, MAX_SYNC_BYTES, MAX_TEXT_BYTES, MAX_UNSETTLED, MAX_WEBHOOKS, MAX_WORDS,
};
pub use catalog::Catalog;
pub use change::SandboxChange;
pub use error::{Error, Kind, Limit, Result};
pub use events::Events;
pub use projects::Projects;
pub use query::{AddLimits, Page, Position, SandboxQuery};
pub use records::{
    Agent, ApiKey, Attempt, BaseMove, Delivery, DeliveryState, Event, EventKind, EventQuery,
    FileVersion, KeyLimits, Landed, LandedStep, Landing, LandingKind, LogEntry, NewEvent,
    PathChange, Project, ProjectChange, ProjectPolicy, ProjectQuery, Retention, Review,
    ReviewChange, ReviewQuery, ReviewState, ReviewStep, Sandbox, Sides, Step, TENANT_LIMITS, Tag,
    Template, Tenant, TenantLimits, Unkept, UnkeptQuery, Unsettled, VersionKind, Webhook,
    Workspace, WorkspaceChange, WorkspaceQuery, WorkspaceState,
};
pub use request::{Begun, IdempotentRequest, RequestRun};
pub use roots::{RootPlace, Roots};
pub use sqlite::{ADOPTING, FoundCatalog, GENERATION, INSTALLATION, SqliteCatalog, SqliteOptions};
