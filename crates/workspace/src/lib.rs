//! Workspaces: ordinary directories, made from snapshots, in which agents work,
//! and which become snapshots again.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`. Reads no clock,
//! no random source and no environment: ids and times are passed in. Trusts
//! nothing that is in a workspace, and never follows a path out of one.
//!
//! ```text
//! registry/log      which workspaces there are: a line for each change, synced
//! registry/lock     held while that is read or written
//! making            held by whoever makes one, so that nothing it needs goes
//! live/ID/          one workspace; `lock` is held by whoever works on it
//! bases/, layers/   what providers share between workspaces
//! lazy/             snapshots that are served instead of written out
//! views/            what those who only read share
//! read/ID           what a read-only one shows, where that is a mount
//! read.bare/ID      that directory without the mount, for containers
//! uppers/           what was changed in them, if that is in a pool
//! trash/            what is being removed
//! ```
//!
//! A container is given a workspace by binding its [`path`](Workspaces::path),
//! with no propagation. One that [shares](Workspaces::shares) what it follows
//! has to be bound in another way: see [`bind`](Workspaces::bind). One that is
//! started before there is a workspace for it is given a [slot](Slots).
//!
//! Whoever may not mount can have overlays that only those see who
//! [enter](Entrance) them.
//!
//! A workspace exists from the moment its line is in the log. What is in `live`
//! without one is half-made or half-removed, and goes at the next start.

#[cfg(target_os = "linux")]
mod btrfs;
mod changes;
mod error;
mod freeze;
mod home;
mod id;
mod inside;
mod lock;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespace;
mod probe;
pub mod provider;
mod record;
mod registry;
#[cfg(target_os = "linux")]
mod slots;
mod trash;
mod workspaces;

pub use changes::Changes;
pub use elevo_engine::Owner;
pub use error::{Error, Result};
pub use freeze::{Freeze, NeverFreeze};
pub use id::{InvalidId, WorkspaceId};
pub use inside::Inside;
#[cfg(target_os = "linux")]
pub use namespace::Entrance;
pub use probe::{Finding, choose, probe};
pub use provider::{LazyServer, ProviderKind, WorkspaceProvider};
#[cfg(target_os = "linux")]
pub use provider::{is_pool_stuck, remount_pool};
pub use record::{Record, State};
#[doc(hidden)]
pub use registry::read_any_registry;
#[cfg(target_os = "linux")]
pub use slots::{Slot, Slots};
#[cfg(target_os = "linux")]
pub use workspaces::write_out;
pub use workspaces::{
    Binding, Options, Refreshed, Snapshotted, Usage, Way, Workspaces, erase, needed_snapshots,
    write_records,
};
