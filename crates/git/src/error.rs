use elevo_core::InvalidPath;

/// Why a repository was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no repository that can be read.
    #[error("this is no git repository that can be read")]
    Open(#[source] Box<gix::Error>),
    /// The revision names no commit.
    #[error("`{revision}` names no commit of the repository")]
    Revision {
        /// What was asked for.
        revision: String,
        /// Why it names none.
        source: Box<gix::Error>,
    },
    /// Something in the repository is missing or damaged.
    #[error("an object of the repository is missing or damaged")]
    Object(#[source] Box<gix::Error>),
    /// There are more commits than were asked for.
    #[error("the history has more than {0} commits")]
    TooLong(usize),
    /// A file is larger than is read at once.
    #[error("`{path}` has {size} bytes, more than a file of a repository may have here")]
    TooLarge {
        /// Where.
        path: String,
        /// How large.
        size: u64,
    },
    /// A name that no tree of files can have.
    #[error("`{name}` is no name for a file")]
    Name {
        /// The name.
        name: String,
        /// Why not.
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
