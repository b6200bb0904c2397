use std::io;
use std::path::{Path, PathBuf};

use crate::id::WorkspaceId;

/// What an operation on workspaces can end with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no workspace of that id.
    #[error("there is no workspace `{0}`")]
    NotFound(WorkspaceId),
    /// There is a workspace of that id already.
    #[error("there is a workspace `{0}` already; choose another id, or remove that one")]
    Exists(WorkspaceId),
    /// The workspace is parked: it has no directory.
    #[error("workspace `{0}` is parked; resume it first")]
    Parked(WorkspaceId),
    /// The workspace is not parked.
    #[error("workspace `{0}` is not parked")]
    NotParked(WorkspaceId),
    /// Another process works on it.
    #[error("workspace `{0}` is being worked on by another process; wait for it to finish")]
    Busy(WorkspaceId),
    /// A limit was asked for that nothing here can hold.
    #[error("the changes in a workspace cannot be limited here: that needs overlays and a pool")]
    NoLimit,
    /// Overlays were asked for on a system that has none.
    #[error("overlays, and the pool for what is changed in them, need Linux")]
    NoOverlays,
    /// Workspaces were to belong to somebody, and only root can give files away.
    #[error("only root can make workspaces that belong to another user; run as root")]
    OwnerNeedsRoot,
    /// The workspace can only be read.
    #[error("workspace `{0}` can only be read; fork it, and change the fork")]
    ReadOnly(WorkspaceId),
    /// The workspace can be written to, and what is in it is its own.
    #[error("workspace `{0}` can be written to; only one that can only be read follows snapshots")]
    Writable(WorkspaceId),
    /// What the workspace follows cannot be shown in containers.
    #[error(
        "containers cannot see workspace `{0}` move to another snapshot here: that needs mounts, \
         and so Linux and root"
    )]
    CannotFollow(WorkspaceId),
    /// Only those who enter the workspace see it.
    #[error(
        "workspace `{0}` is seen only by commands that are run in it: `elevo ws run {0} -- \
         COMMAND`; `elevo ws path {0}` makes it a directory that everybody sees"
    )]
    Private(WorkspaceId),
    /// Processes are in the workspace.
    #[error("commands still run in workspace `{id}`: end process {}", list(pids))]
    InUse {
        /// Which workspace.
        id: String,
        /// Some of them.
        pids: Vec<u32>,
    },
    /// The registry has a line that is not one.
    #[error(
        "line {line} of {} is damaged; restore the file from a backup, or remove that line and \
         with it what it says about one workspace",
        path.display()
    )]
    Registry {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// There are workspaces, and nothing that says what they are.
    #[error(
        "{} is missing or empty, though there are workspaces; restore it from a backup",
        .0.display()
    )]
    NoRegistry(PathBuf),
    /// Whoever writes into the workspace could not be held still.
    #[error("the writers of workspace `{id}` could not be stopped")]
    Freeze {
        /// Which workspace.
        id: WorkspaceId,
        /// Why.
        source: io::Error,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] elevo_engine::Error),
    /// The file system failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
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
