use std::path::PathBuf;

use elevo_objects::SnapshotId;
use serde_json::{Value, json};

use super::described::{Advice, Described, describe, lossy, path_details};
use super::exit::Exit;
use crate::output::format::short;

/// Errors of working directories and checkouts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectoryProblem {
    #[error(
        "a checkout of {} into {} was interrupted, so the directory holds a mixture of the new and the previous state",
        short(*.to), .directory.display()
    )]
    Interrupted {
        directory: PathBuf,
        to: SnapshotId,
        source: Option<elevo_engine::Error>,
    },
    #[error("the checkout of {} into {} stopped half-way", short(*.to), .directory.display())]
    Stopped {
        directory: PathBuf,
        to: SnapshotId,
        source: elevo_engine::Error,
    },
    #[error("{} is inside the working directory {}", .directory.display(), .working.display())]
    InsideWorking {
        directory: PathBuf,
        working: PathBuf,
    },
    #[error("{} is not in the working directory {}", .path.display(), .working.display())]
    OutsideWorking { path: PathBuf, working: PathBuf },
    #[error("no directory was given, and the current directory does not belong to a store")]
    NoWorkingDirectory,
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    #[error("another `elevo` command is running in {}", .0.display())]
    Busy(PathBuf),
    #[error("no snapshot was committed from or checked out into {}", .0.display())]
    NoSeed(PathBuf),
}

impl DirectoryProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::Interrupted { directory, to, .. } => describe(
                Exit::Conflict,
                "checkout_interrupted",
                json!({ "directory": lossy(directory), "to": to.to_string() }),
                format!(
                    "`elevo checkout --force {}` completes it and discards changes in the \
                     directory; to keep them, run `elevo commit --parent REV --detach` first",
                    short(*to)
                ),
            ),
            Self::Stopped { directory, to, .. } => describe(
                Exit::Failed,
                "checkout_stopped",
                json!({ "directory": lossy(directory), "to": to.to_string() }),
                "the directory holds parts of both snapshots; fix the cause and run the same \
                 checkout again, with --force if files were cut off",
            ),
            Self::InsideWorking { directory, working } => describe(
                Exit::Usage,
                "inside_working_directory",
                json!({ "directory": lossy(directory), "working": lossy(working) }),
                "`elevo commit` saves the whole working directory; `elevo import` \
                 saves a part of it",
            ),
            Self::OutsideWorking { path, working } => describe(
                Exit::Usage,
                "path_invalid",
                json!({ "path": lossy(path), "working": lossy(working) }),
                "name paths inside the working directory",
            ),
            Self::NoWorkingDirectory => describe(
                Exit::Usage,
                "directory_missing",
                Value::Null,
                "name a directory, or run the command in a working directory",
            ),
            Self::NotADirectory(path) => describe(
                Exit::NotFound,
                "directory_not_found",
                path_details("directory", path),
                Advice::None,
            ),
            Self::Busy(path) => describe(
                Exit::Busy,
                "directory_busy",
                path_details("directory", path),
                "wait until it has finished",
            ),
            Self::NoSeed(path) => describe(
                Exit::NotFound,
                "seed_unknown",
                path_details("directory", path),
                "a seed is a directory that `elevo checkout` or `commit` was run on since \
                 the machine was started",
            ),
        }
    }
}
