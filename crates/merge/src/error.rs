use std::error::Error as StdError;

/// What can go wrong in a merge, apart from conflicts, which are results.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is too much to look at.
    #[error("more than {limit} changes to merge one by one")]
    TooManyChanges {
        /// As many may be.
        limit: u64,
    },
    /// A tree could not be read.
    #[error("a tree cannot be read")]
    Engine(#[from] elevo_engine::Error),
    /// Who goes before whom could not be found out.
    #[error("the priority of an agent cannot be found out")]
    Precedence(#[source] Box<dyn StdError + Send + Sync>),
}

/// The result of a merge that may fail.
pub type Result<T> = std::result::Result<T, Error>;
