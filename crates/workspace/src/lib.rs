//! Workspaces: ordinary directories in which agents work. A workspace is created
//! from a snapshot, and snapshots are taken of it.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`. Reads no clock,
//! no random source and no environment: ids and times are passed in. Does not
//! trust the content of a workspace, and never follows a path out of one.
//!
//! ```text
//! registry/log      the list of workspaces: a line for each change, synced
//! registry/lock     held while the log is read or written
//! making            held while a workspace is created, so that `tidy` deletes no
//!                   layer that it needs
//! live/ID/          one workspace; its `lock` is held during each operation
//! bases/, layers/   directories that workspaces share
//! lazy/             snapshots that are served instead of written out
//! views/            read-only overlays that readers share
//! read/ID           the mount of a read-only workspace
//! read.bare/ID      that directory without the mount, for containers
//! uppers/           the pool of uppers, if there is one
//! trash/            files that are being deleted
//! ```
//!
//! To give a workspace to a container, bind its [`path`](Workspaces::path)
//! without propagation. A read-only workspace whose changes containers can
//! [see](Workspaces::follows_in_containers) is bound with [`bind`](Workspaces::bind) instead. A
//! container that is started before its workspace exists gets a [slot](Slots).
//!
//! A user who may not mount can have private overlays. Only processes that
//! [enter](Entrance) a private overlay see it.
//!
//! A workspace exists from the moment its line is in the log. A directory in
//! `live` without a line is half created or half deleted. The next
//! [`Workspaces::open`] deletes it, unless a process still works on it.

#[cfg(target_os = "linux")]
mod btrfs;
mod changes;
mod error;
mod freeze;
mod home;
mod lock;
#[cfg(target_os = "linux")]
mod mountinfo;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespace;
mod owner;
mod probe;
#[cfg(target_os = "linux")]
mod probe_mount;
pub mod provider;
mod record;
mod registry;
#[cfg(target_os = "linux")]
mod slots;
mod trash;
mod workspace_location;
mod workspaces;

pub use changes::Changes;
pub use elevo_core::{InvalidId, WorkspaceId};
pub use elevo_engine::Owner;
pub use error::{Error, Result};
pub use freeze::{Freeze, NeverFreeze};
#[cfg(target_os = "linux")]
pub use namespace::Entrance;
pub use probe::{ProbeResult, default_of, probe};
#[cfg(target_os = "linux")]
pub use probe_mount::ProbeMount;
pub use provider::{LazyServer, ProviderKind, WorkspaceProvider};
#[cfg(target_os = "linux")]
pub use provider::{is_pool_stuck, remount_pool};
pub use record::{Record, State};
pub use registry::check_format;
#[doc(hidden)]
pub use registry::read_any_registry;
#[cfg(target_os = "linux")]
pub use slots::{Slot, Slots};
pub use workspace_location::WorkspaceLocation;
#[cfg(target_os = "linux")]
pub use workspaces::write_out;
pub use workspaces::{
    Binding, Options, Refreshed, Snapshotted, Usage, WorkspaceAccess, Workspaces, erase,
    needed_snapshots, write_records,
};
