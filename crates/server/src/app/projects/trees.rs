//! Operations on editable trees that several services need.

use elevo_core::TreePath;
use elevo_engine::{CommitInfo, StateTree};
use elevo_objects::Entry;

use crate::app::snapshots::Kept;
use crate::failure::Result;

/// Stores a tree as a snapshot, and keeps it from garbage collection.
pub(crate) async fn committed(tree: &StateTree, said: CommitInfo) -> Result<Kept> {
    let id = tree.commit(said).await?;
    Kept::of(tree.repository(), id).await
}

/// Puts an entry at a path, or removes the path if there is no entry. Removing a
/// missing path is not an error.
pub(crate) async fn put(tree: &StateTree, path: &TreePath, entry: Option<Entry>) -> Result<()> {
    let done = match entry {
        Some(entry) => tree.put(path, entry).await,
        None => tree.remove(path).await,
    };
    match done {
        Ok(()) | Err(elevo_engine::Error::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
