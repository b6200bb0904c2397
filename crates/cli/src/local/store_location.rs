//! Finds the store of a command.

use std::path::{Path, PathBuf};

use elevo_objects::SnapshotId;
use elevo_store_local::{OpenError, server_stamp};
use elevo_workspace::WorkspaceLocation;

use crate::errors::{DirectoryProblem, LocalProblem, Protected, StoreProblem};
use crate::global::Global;
use crate::local::checkout_record::CheckoutRecord;
use crate::local::layout::{self, store_in};

/// A store, and the directory it was found from.
#[derive(Clone, Debug)]
pub(crate) struct StoreLocation {
    pub(crate) store: PathBuf,
    pub(crate) around: Around,
}

/// The nearest directory that determines the store of a command.
#[derive(Clone, Debug)]
pub(crate) enum Around {
    /// A directory with a store or a checkout in it.
    Working(PathBuf),
    /// A directory of workspaces. A working directory further up does not
    /// count, because files in a workspace do not belong to it.
    Workspace(WorkspaceLocation),
    /// Neither of them.
    Nothing,
}

impl Around {
    pub(crate) fn of(start: &Path) -> Self {
        for directory in start.ancestors() {
            if is_working(directory) {
                return Self::Working(directory.into());
            }
            if let Some(inside) = WorkspaceLocation::of(directory, start) {
                return Self::Workspace(inside);
            }
        }
        Self::Nothing
    }

    fn working(&self) -> Option<&Path> {
        match self {
            Self::Working(working) => Some(working),
            Self::Workspace(_) | Self::Nothing => None,
        }
    }
}

impl StoreLocation {
    /// The snapshot recorded for the working directory.
    pub(crate) fn here(&self) -> Option<SnapshotId> {
        CheckoutRecord::read(self.around.working()?)?.snapshot()
    }

    /// The working directory that contains the current directory.
    pub(crate) fn working(&self) -> Result<&Path, LocalProblem> {
        match &self.around {
            Around::Working(working) => Ok(working),
            Around::Workspace(inside) => Err(Protected::Inside(inside.clone()).into()),
            Around::Nothing => Err(DirectoryProblem::NoWorkingDirectory.into()),
        }
    }

    /// Whether the store belongs to a server, whose catalog has its roots.
    pub(crate) fn is_of_server(&self) -> Result<bool, OpenError> {
        let beside = self.store.with_file_name("catalog.db");
        Ok(beside.is_file() || server_stamp(&self.store)?.is_some())
    }
}

pub(crate) fn find_location(
    global: &Global,
    here: &Path,
    directory: Option<&Path>,
) -> Result<StoreLocation, LocalProblem> {
    let own = directory.filter(|directory| is_working(directory));
    let around = match own {
        Some(own) => Around::Working(own.to_owned()),
        None => Around::of(here),
    };
    let store = match (&global.store, &around) {
        (Some(named), _) => named_store(&here.join(named)),
        (None, Around::Working(working)) => store_of(working)?,
        (None, Around::Workspace(inside)) => {
            return Err(Protected::Inside(inside.clone()).into());
        }
        (None, Around::Nothing) => {
            let from = here.to_owned();
            return Err(StoreProblem::NoStore { from }.into());
        }
    };
    Ok(StoreLocation { store, around })
}

pub(crate) fn find_workspace_location(
    global: &Global,
    here: &Path,
) -> Result<StoreLocation, LocalProblem> {
    match (&global.store, Around::of(here)) {
        (None, Around::Workspace(inside)) => match layout::store_beside(&inside.root) {
            Some(store) => Ok(StoreLocation {
                store,
                around: Around::Workspace(inside),
            }),
            None => Err(Protected::Inside(inside).into()),
        },
        _ => find_location(global, here, None),
    }
}

/// Finds the store of a command on a directory or a store.
pub(crate) fn find_store(
    global: &Global,
    here: &Path,
    directory: Option<&Path>,
) -> Result<PathBuf, LocalProblem> {
    let directory = directory.map(|directory| here.join(directory));
    Ok(find_location(global, here, directory.as_deref())?.store)
}

/// Finds the store of a command of `elevo ws`.
pub(crate) fn find_workspace_store(global: &Global, here: &Path) -> Result<PathBuf, LocalProblem> {
    Ok(find_workspace_location(global, here)?.store)
}

fn is_working(directory: &Path) -> bool {
    store_in(directory).is_dir() || CheckoutRecord::read(directory).is_some()
}

/// The store of a working directory: its own, or the one it was checked out
/// from.
fn store_of(working: &Path) -> Result<PathBuf, StoreProblem> {
    let own = store_in(working);
    if own.is_dir() {
        return Ok(own);
    }
    match CheckoutRecord::read(working) {
        Some(record) if record.store.is_dir() => Ok(record.store),
        Some(record) => Err(StoreProblem::StoreGone {
            directory: working.into(),
            store: record.store,
        }),
        None => Err(StoreProblem::NoStore {
            from: working.into(),
        }),
    }
}

/// The store at a path, or in the directory at that path.
fn named_store(path: &Path) -> PathBuf {
    let inside = store_in(path);
    let path = if inside.is_dir() { inside } else { path.into() };
    path.canonicalize().unwrap_or(path)
}
