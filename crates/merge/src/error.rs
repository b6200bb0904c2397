//! Errors of merges.

use std::error::Error as StdError;

/// Failures of a merge. Conflicts are results, not failures.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sides changed too many entries.
    #[error("more than {limit} changes must be merged one by one")]
    TooManyChanges {
        /// Maximum number of changes.
        limit: u64,
    },
    /// A tree could not be read.
    #[error("cannot read a tree")]
    Engine(#[from] elevo_engine::Error),
    /// The priority of an agent could not be looked up.
    #[error("cannot look up the priority of an agent")]
    Precedence(#[source] Box<dyn StdError + Send + Sync>),
}

/// The result of a merge that may fail.
pub type Result<T> = std::result::Result<T, Error>;
