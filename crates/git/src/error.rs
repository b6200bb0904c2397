//! Errors of reading a repository.

use elevo_core::InvalidPath;

/// The failures of reading a repository.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The repository is missing or unreadable.
    #[error("not a readable git repository")]
    Open(#[source] Box<gix::Error>),
    /// The revision does not name a commit.
    #[error("`{revision}` does not name a commit of the repository")]
    Revision {
        /// The requested revision.
        revision: String,
        /// The cause.
        source: Box<gix::Error>,
    },
    /// An object of the repository is missing or damaged.
    #[error("an object of the repository is missing or damaged")]
    Object(#[source] Box<gix::Error>),
    /// The history has more commits than the limit allows.
    #[error("the history has more than {0} commits")]
    TooLong(usize),
    /// A file exceeds the maximum size.
    #[error("`{path}` has {size} bytes, which is more than the maximum of 1 GiB")]
    TooLarge {
        /// The path of the file.
        path: String,
        /// The size in bytes.
        size: u64,
    },
    /// A name that is not valid in a tree.
    #[error("`{name}` is not a valid file name")]
    Name {
        /// The name.
        name: String,
        /// The cause.
        source: InvalidPath,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] elevo_engine::Error),
}

/// Result of reading a repository.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) fn object(error: gix::Error) -> Error {
    Error::Object(Box::new(error))
}
