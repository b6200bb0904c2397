//! Errors of operations on trees.

use std::io;

use elevo_core::{InvalidPath, TreePath};
use elevo_objects::{DecodeError, InvalidSnapshot, ObjectKey, SnapshotId};

use crate::store::StoreError;

/// Error of an operation on trees.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing exists at the path.
    #[error("`{0}` does not exist")]
    NotFound(TreePath),
    /// A component of the path is not a directory, or the operation needs a
    /// directory.
    #[error("`{0}` is not a directory")]
    NotADirectory(TreePath),
    /// The operation needs a file.
    #[error("`{0}` is not a file")]
    NotAFile(TreePath),
    /// The operation needs a symbolic link.
    #[error("`{0}` is not a symbolic link")]
    NotALink(TreePath),
    /// The root cannot be removed, renamed or replaced.
    #[error("the root of a tree cannot be removed, renamed or replaced")]
    Root,
    /// A directory cannot be moved into itself.
    #[error("`{0}` cannot be moved into itself")]
    IntoItself(TreePath),
    /// The range ends beyond the maximum size of a file.
    #[error("the range ends beyond the maximum size of a file")]
    OutOfRange,
    /// A link's target must have 1 to 4095 bytes and no NUL.
    #[error("the target of a link must have 1 to 4095 bytes and no NUL")]
    LinkTarget,
    /// Not a valid path within a tree.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// The snapshot is not stored.
    #[error("snapshot {0} is not stored")]
    NoSuchSnapshot(SnapshotId),
    /// The snapshot is not valid and cannot be written.
    #[error(transparent)]
    Snapshot(#[from] InvalidSnapshot),
    /// The changed files have more text than one response may compare.
    #[error("the changed files have too much text to compare line by line")]
    TooMuchText,
    /// An object that a tree refers to is not in the store.
    #[error("{0:?} is missing from the store")]
    MissingObject(ObjectKey),
    /// An object does not decode, or contradicts the node that refers to it.
    #[error("{key:?} is damaged")]
    Damaged {
        /// Key of the object.
        key: ObjectKey,
        /// The fault that the decoder found.
        source: DecodeError,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller cancelled the operation.
    #[error("cancelled")]
    Cancelled,
    /// The file system failed at a path of an import or a checkout.
    #[error("cannot {action} `{path}`")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// Path relative to the directory imported or checked out.
        path: TreePath,
        /// Error of the system.
        source: io::Error,
    },
    /// A checkout would overwrite or remove paths that differ from the snapshot
    /// that was there before.
    #[error("{} would be overwritten or removed by the checkout; the first is `{first}`", count_paths(*.count))]
    InTheWay {
        /// The first such path.
        first: TreePath,
        /// Number of such paths.
        count: u64,
    },
}

fn count_paths(count: u64) -> String {
    if count == 1 {
        "one changed path".into()
    } else {
        format!("{count} changed paths")
    }
}

/// Result of an operation on trees.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns a function that reports a failure on the whole directory of an
/// import or a checkout.
pub(crate) fn at_root(action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io {
        action,
        path: TreePath::root(),
        source,
    }
}
