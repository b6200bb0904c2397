use std::path::PathBuf;

use serde_json::json;

use super::described::{Described, describe, lossy, path_details};
use super::exit::Exit;

/// Errors of finding and choosing a store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreProblem {
    #[error("there is no store in {} or above it", .from.display())]
    NoStore { from: PathBuf },
    #[error("the store of {} should be at {}, but is not there", .directory.display(), .store.display())]
    StoreGone { directory: PathBuf, store: PathBuf },
    #[error("the store {} is inside {}", .store.display(), .directory.display())]
    StoreInside { store: PathBuf, directory: PathBuf },
    #[error(
        "the store {} belongs to a server; only the catalog of that server records which \
         snapshots are needed",
        .store.display()
    )]
    StoreOfServer { store: PathBuf },
}

impl StoreProblem {
    pub(super) fn describe(&self) -> Described {
        match self {
            Self::NoStore { from } => describe(
                Exit::NotFound,
                "store_not_found",
                path_details("directory", from),
                "create one with `elevo init`, or name one with --store PATH",
            ),
            Self::StoreGone { directory, store } => describe(
                Exit::NotFound,
                "store_not_found",
                json!({ "directory": lossy(directory), "store": lossy(store) }),
                "if the store has moved, name it with --store PATH",
            ),
            Self::StoreInside { store, directory } => describe(
                Exit::Usage,
                "store_inside",
                json!({ "store": lossy(store), "directory": lossy(directory) }),
                "import a directory that does not contain the store, or move the store",
            ),
            Self::StoreOfServer { store } => describe(
                Exit::Conflict,
                "store_of_server",
                path_details("store", store),
                "start the server and run `elevo server gc --data DIR`; the server also collects \
                 garbage regularly",
            ),
        }
    }
}
