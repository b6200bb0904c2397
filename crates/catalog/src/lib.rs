//! Everything the service records except files: tenants, agents and their keys,
//! sandboxes, templates, and the requests that were already carried out; projects
//! with their log, policies, reviews and workspaces; events and webhooks; the nodes
//! that servers run on, and their leases.
//!
//! Depends on `elevo-core` and `elevo-objects`. Reads no clock, no random source
//! and no environment: times, ids and secrets are passed in, and timers only bound
//! waits. Stores snapshot ids but never reads a snapshot; stores policies but never
//! interprets one. Knows nothing of containers, directories or HTTP. Stores secrets
//! only as hashes or encrypted, except webhook secrets, which are needed in clear to
//! sign.
//!
//! [`Catalog`] and the traits of its areas state the promises; [`SqliteCatalog`]
//! implements them on one file, [`PostgresCatalog`] in a database that several
//! processes share. The traits expose no database, and no call spans
//! two stores. The function [`transfer()`] copies a whole catalog from one database
//! to another.

mod bounds;
mod catalog;
mod change;
mod columns;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod found;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod limits;
mod nodes;
mod postgres;
mod query;
#[cfg(test)]
mod races;
mod records;
pub mod secret;
mod sqlite;
mod stored;
mod transfer;

pub use catalog::{
    Agents, Catalog, Commands, Deliveries, Events, Keys, Landings, Leases, Nodes, Policies,
    Projects, Requests, Reviews, Sandboxes, Settings, SnapshotRoots, Snapshots, Tags, Templates,
    Tenants, VersionRetention, Versions, Webhooks, Workspaces,
};
pub use change::SandboxChange;
pub use error::{Error, Kind, Limit, Result};
pub use found::{ADOPTING, FoundCatalog, GENERATION, INSTALLATION};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzing::read_any_row;
pub use limits::{
    MAX_BATCH, MAX_BODY_BYTES, MAX_CHANGES, MAX_COUNTS_BYTES, MAX_DETAIL_BYTES, MAX_LISTED,
    MAX_MESSAGE_BYTES, MAX_METADATA, MAX_METADATA_VALUE_BYTES, MAX_NAME_BYTES, MAX_PAGE,
    MAX_POLICY_BYTES, MAX_REASON_BYTES, MAX_REVIEWS, MAX_SPEC_BYTES, MAX_STEPS, MAX_SYNC_BYTES,
    MAX_TEXT_BYTES, MAX_UNSETTLED, MAX_WEBHOOKS, MAX_WORDS,
};
pub use nodes::{Lease, Node, NodeId, ServerSession};
pub use postgres::{PostgresCatalog, PostgresCheck, PostgresOptions};
pub use query::{AddLimits, Page, Position, SandboxQuery};
pub use records::{
    Access, Agent, ApiKey, Attempt, BaseMove, Begun, Claimed, ClientSnapshot, CommandClaim,
    Delivery, DeliveryState, Event, EventKind, EventQuery, FileVersion, IdempotentRequest,
    KeyLimits, Landed, LandedStep, Landing, LandingKind, LogEntry, NewEvent, PathChange, Project,
    ProjectChange, ProjectPolicy, ProjectQuery, RequestRun, Retention, Review, ReviewChange,
    ReviewQuery, ReviewState, ReviewStep, RootPlace, Roots, Sandbox, SandboxFailure, Sides,
    SnapshotQuery, Step, TENANT_LIMITS, Tag, Template, Tenant, TenantLimits, Unkept, UnkeptQuery,
    Unsettled, VersionKind, Webhook, WebhookChange, Workspace, WorkspaceChange, WorkspaceFiles,
    WorkspaceQuery, WorkspaceState,
};
pub use sqlite::{SqliteCatalog, SqliteOptions};
pub use transfer::{AnyCatalog, Transferred, transfer};
