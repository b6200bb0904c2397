//! The [`Catalog`] trait, made of one trait for each area. Each database is one
//! implementation, and `conformance` tests every implementation against the
//! promises made here and in the areas.

mod agents;
mod commands;
mod deliveries;
mod events;
mod keys;
mod landings;
mod leases;
mod nodes;
mod policies;
mod projects;
mod requests;
mod retention;
mod reviews;
mod roots;
mod sandboxes;
mod settings;
mod snapshots;
mod tags;
mod templates;
mod tenants;
mod versions;
mod webhooks;
mod workspaces;

use std::fmt;

use async_trait::async_trait;

pub use self::agents::Agents;
pub use self::commands::Commands;
pub use self::deliveries::Deliveries;
pub use self::events::Events;
pub use self::keys::Keys;
pub use self::landings::Landings;
pub use self::leases::Leases;
pub use self::nodes::Nodes;
pub use self::policies::Policies;
pub use self::projects::Projects;
pub use self::requests::Requests;
pub use self::retention::VersionRetention;
pub use self::reviews::Reviews;
pub use self::roots::SnapshotRoots;
pub use self::sandboxes::Sandboxes;
pub use self::settings::Settings;
pub use self::snapshots::Snapshots;
pub use self::tags::Tags;
pub use self::templates::Templates;
pub use self::tenants::Tenants;
pub use self::versions::Versions;
pub use self::webhooks::Webhooks;
pub use self::workspaces::Workspaces;
use crate::error::Result;

/// Everything the service records except files.
///
/// Every implementation keeps these promises in all areas. Promises have numbers
/// across all traits; the ones that are missing here belong to one area:
/// [`Sandboxes`] 6, [`Landings`] 11 to 14, [`Reviews`] 15, [`VersionRetention`]
/// 16 and 17, [`Events`] 18 and 19, [`Deliveries`] 20, [`Tenants`] 21,
/// [`Requests`] 22, [`SnapshotRoots`] 23, [`Commands`] 24, [`Leases`] 25 and 26,
/// [`Nodes`] 27.
///
/// 1. *Acknowledged means durable*: the changes of a call that has returned `Ok`
///    survive a crash of the process and a loss of power.
/// 2. *All or nothing*: a call makes all of its changes or none. After an error
///    other than [`Failed`](crate::Error::Failed) nothing has changed. Only
///    [`clear_tenant`](Tenants::clear_tenant),
///    [`remove_project`](Projects::remove_project) and
///    [`forget_idempotent`](Requests::forget_idempotent) delete in several
///    changes, each of which is all or nothing.
/// 3. *Reads see every acknowledged change*: a read sees all changes that were
///    acknowledged before it began, through any handle and in any process; for
///    events see [`Events`] 19. A list and its total are of the same moment.
/// 4. *Tenants are separate*: a call that names a tenant reads and changes only
///    the records of that tenant; a record of another tenant is unknown to it. A
///    call that concerns records of tenants, but names no tenant, says so in
///    its name.
/// 5. *A change is a compare-and-swap*: if concurrent changes expect the same
///    state and replace it by another, exactly one succeeds.
/// 7. *Limits hold* under any number of concurrent additions.
/// 8. *Order is total*: a list always has the same order.
/// 9. *Text is data*: a text within bounds is read back exactly as it was
///    written, and only an equal text finds it. A text out of bounds is
///    [`Refused`](crate::Error::Refused) where it would be written, and finds
///    nothing where it is looked up.
/// 10. *Times are stored in microseconds*; finer parts are truncated.
///
/// Dropping a future leaves the catalog consistent: its change has happened
/// completely or not at all.
///
/// Every call can fail with `Busy`, `Damaged` or `Failed`, and every change with
/// `Full`. The calls name only their other errors. A record or a number out of
/// bounds is `Refused`, for instance a `limit` that is not 1 to
/// [`MAX_PAGE`](crate::MAX_PAGE).
#[async_trait]
pub trait Catalog:
    Agents
    + Commands
    + Deliveries
    + Events
    + Keys
    + Landings
    + Leases
    + Nodes
    + Policies
    + Projects
    + Requests
    + Reviews
    + Sandboxes
    + Settings
    + SnapshotRoots
    + Snapshots
    + Tags
    + Templates
    + Tenants
    + VersionRetention
    + Versions
    + Webhooks
    + Workspaces
    + fmt::Debug
    + Send
    + Sync
{
    /// Moves the expiry of all sandboxes that are not being removed, of all
    /// workspaces and open reviews that have one, and the `keep_until` of all
    /// requests by `by` microseconds, and that of leases and sessions unless the
    /// database uses its own clock for them. Sets a setting in the same change.
    async fn move_expiry(&self, by: i64, setting: &str, value: &str) -> Result<()>;

    /// Checks that the catalog can be read and written now.
    async fn check(&self) -> Result<()>;

    /// Waits for running changes and closes the connections. Later calls fail. If
    /// this is not called, nothing is lost.
    async fn close(&self);
}
