use std::io;
use std::path::{Path, PathBuf};

use elevo_core::WorkspaceId;

/// The failures of an operation on workspaces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No workspace has that id.
    #[error("there is no workspace `{0}`")]
    NotFound(WorkspaceId),
    /// A workspace with that id exists.
    #[error("workspace `{0}` already exists; choose another id, or remove that workspace")]
    Exists(WorkspaceId),
    /// The workspace is parked: it has no directory.
    #[error("workspace `{0}` is parked; resume it first")]
    Parked(WorkspaceId),
    /// The workspace is not parked.
    #[error("workspace `{0}` is not parked")]
    NotParked(WorkspaceId),
    /// Another process is working on the workspace.
    #[error("another process is working on workspace `{0}`; retry when it has finished")]
    Busy(WorkspaceId),
    /// A limit was requested that the provider cannot enforce.
    #[error(
        "the size of this workspace cannot be limited; a limit needs the provider `overlay` or \
         `lazy`, and a pool"
    )]
    NoLimit,
    /// The program that creates a pool is missing.
    #[error(
        "limits of disk space need the program mkfs.btrfs, which this machine does not have; \
         install the package btrfs-progs"
    )]
    NoBtrfs,
    /// Overlays or a pool were requested on a system without overlays.
    #[error(
        "overlays, and the pool that holds their changes, work only on Linux; use the provider \
         `reflink` or `copy`, without a pool"
    )]
    NoOverlays,
    /// Workspaces of another user were requested by a process that is not root.
    #[error("only root can create workspaces that belong to another user; run as root")]
    OwnerNeedsRoot,
    /// The workspace is read-only.
    #[error("workspace `{0}` is read-only; fork it and change the fork")]
    ReadOnly(WorkspaceId),
    /// The workspace is writable, so it cannot follow snapshots.
    #[error("workspace `{0}` is writable; only a read-only workspace can follow snapshots")]
    Writable(WorkspaceId),
    /// Containers cannot see the workspace move to another snapshot.
    #[error(
        "containers cannot see workspace `{0}` move to another snapshot; that needs a mount, \
         which only root on Linux can make"
    )]
    CannotFollow(WorkspaceId),
    /// Only processes that enter the workspace see it.
    #[error(
        "workspace `{0}` is visible only to commands that run in it; use `elevo ws exec {0} -- \
         COMMAND`, or make it an ordinary directory with `elevo ws path {0}`"
    )]
    Private(WorkspaceId),
    /// Processes are in the workspace.
    #[error(
        "commands still run in workspace `{id}`; stop the processes {}",
        list(pids)
    )]
    InUse {
        /// The id of the workspace.
        id: String,
        /// Some of the processes.
        pids: Vec<u32>,
    },
    /// A line of the registry cannot be parsed.
    #[error(
        "line {line} of {} is damaged; restore the file from a backup, or delete that line, which \
         undoes one change of the list of workspaces",
        path.display()
    )]
    Registry {
        /// The log of the registry.
        path: PathBuf,
        /// The number of the line, starting at 1.
        line: usize,
    },
    /// A newer version of Elevo wrote the registry.
    #[error(
        "{} has format {found}, and this version of Elevo reads up to {known}; install the version \
         that wrote it or a newer one, or restore a backup from before the upgrade",
        path.display()
    )]
    NewerRegistry {
        /// The log of the registry.
        path: PathBuf,
        /// Format of the registry.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
    /// Workspaces exist, but the registry that describes them is missing.
    #[error(
        "{} is missing or empty although workspaces exist; restore it from a backup",
        .0.display()
    )]
    NoRegistry(PathBuf),
    /// The writers in the workspace could not be paused.
    #[error("cannot pause the processes that write to workspace `{id}`")]
    Freeze {
        /// The id of the workspace.
        id: WorkspaceId,
        /// The cause.
        source: io::Error,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] elevo_engine::Error),
    /// The file system failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The verb of the message.
        action: &'static str,
        /// The path that the action failed on.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

fn list(pids: &[u32]) -> String {
    let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
    pids.join(", ")
}

/// Result of an operation on workspaces.
pub type Result<T> = std::result::Result<T, Error>;
