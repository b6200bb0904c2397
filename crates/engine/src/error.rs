use std::io;

use elevo_core::{InvalidPath, TreePath};
use elevo_objects::{DecodeError, InvalidSnapshot, ObjectKey, SnapshotId};

use crate::store::StoreError;

/// What an operation on trees can end with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing is at that path.
    #[error("`{0}` does not exist")]
    NotFound(TreePath),
    /// A path leads through something that is not a directory, or a directory
    /// was needed.
    #[error("`{0}` is not a directory")]
    NotADirectory(TreePath),
    /// A file was needed.
    #[error("`{0}` is not a file")]
    NotAFile(TreePath),
    /// A link was needed.
    #[error("`{0}` is not a symbolic link")]
    NotALink(TreePath),
    /// The root cannot be removed, renamed or replaced.
    #[error("the root of a tree cannot be removed, renamed or replaced")]
    Root,
    /// A directory cannot be moved into itself.
    #[error("`{0}` cannot be moved into itself")]
    IntoItself(TreePath),
    /// A range that ends beyond the largest file.
    #[error("the range ends beyond the end of the file")]
    OutOfRange,
    /// A link's target must have 1 to 4095 bytes and no NUL.
    #[error("a link's target has 1 to 4095 bytes and no NUL")]
    LinkTarget,
    /// Not a path within a tree.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// No such snapshot is stored.
    #[error("snapshot {0} is not stored")]
    NoSuchSnapshot(SnapshotId),
    /// A snapshot that cannot be written.
    #[error(transparent)]
    Snapshot(#[from] InvalidSnapshot),
    /// The changed files have more text than one answer may compare.
    #[error("the changed files have too much text to compare line by line")]
    TooMuchText,
    /// An object that a tree refers to is not in the store.
    #[error("{0:?} is missing from the store")]
    MissingObject(ObjectKey),
    /// An object does not decode, or contradicts what refers to it.
    #[error("{key:?} is damaged")]
    Damaged {
        /// Which one.
        key: ObjectKey,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Whoever started the operation has ended it.
    #[error("cancelled")]
    Cancelled,
    /// The file system failed at a path of an import or a checkout.
    #[error("cannot {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where, relative to the directory imported or checked out.
        path: TreePath,
        /// What the system said.
        source: io::Error,
    },
    /// A checkout would overwrite or remove what is not in the snapshot that
    /// was there before.
    #[error("{} would be overwritten or removed, starting with `{first}`", count_paths(*.count))]
    InTheWay {
        /// The first path in question.
        first: TreePath,
        /// How many there are.
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

/// What it means that something failed on the whole directory of an import or
/// a checkout.
pub(crate) fn at_root(action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io {
        action,
        path: TreePath::root(),
        source,
    }
}
