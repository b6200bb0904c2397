//! The directories that belong to a store, by their names.

use std::path::{Path, PathBuf};

/// The default directory of workspaces, next to a store.
pub(crate) fn workspaces_beside(store: &Path) -> PathBuf {
    store.with_file_name("workspaces")
}

/// The store next to a directory of workspaces.
pub(crate) fn store_beside(workspaces: &Path) -> Option<PathBuf> {
    let store = workspaces.with_file_name("store");
    (store.is_dir() && workspaces_beside(&store) == workspaces).then_some(store)
}

/// Path of the store that `init` creates in a directory.
pub(crate) fn store_in(directory: &Path) -> PathBuf {
    directory.join(RESERVED).join("store")
}

/// The reserved name in a working directory: never part of a snapshot, never
/// touched by a checkout. The same as [`elevo_core::RESERVED_NAME`], for paths.
pub(crate) const RESERVED: &str = ".elevo";
